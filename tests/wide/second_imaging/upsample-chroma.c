/* Twice the size in both directions by weights 9, 3, 3, 1; rows and columns repeat at the border. */

void kernel_upsample_chroma(int h, int w, unsigned char small[2][h][w],
                            unsigned char large[2][2 * h][2 * w])
{
#pragma scop
    for (int c = 0; c < 2; c++)
        for (int y = 0; y < h; y++) {
            int above = y > 0 ? y - 1 : 0;
            int below = y < h - 1 ? y + 1 : h - 1;
            for (int x = 0; x < w; x++) {
                int left = x > 0 ? x - 1 : 0;
                int right = x < w - 1 ? x + 1 : w - 1;
                int here = 9 * small[c][y][x];
                large[c][2 * y][2 * x] =
                    (here + 3 * small[c][above][x] + 3 * small[c][y][left] + small[c][above][left] + 8) >> 4;
                large[c][2 * y][2 * x + 1] =
                    (here + 3 * small[c][above][x] + 3 * small[c][y][right] + small[c][above][right] + 7) >> 4;
                large[c][2 * y + 1][2 * x] =
                    (here + 3 * small[c][below][x] + 3 * small[c][y][left] + small[c][below][left] + 7) >> 4;
                large[c][2 * y + 1][2 * x + 1] =
                    (here + 3 * small[c][below][x] + 3 * small[c][y][right] + small[c][below][right] + 8) >> 4;
            }
        }
#pragma endscop
}
