/* Edges of a grey image: |gx| + |gy| of Sobel's operator above a limit. */
void kernel_sobel_threshold(int h, int w, int limit, unsigned char in[h][w],
                            unsigned char out[h][w])
{
#pragma scop
    for (int y = 1; y < h - 1; ++y) {
        for (int x = 1; x < w - 1; ++x) {
            int gx = in[y - 1][x + 1] + 2 * in[y][x + 1] + in[y + 1][x + 1]
                     - in[y - 1][x - 1] - 2 * in[y][x - 1] - in[y + 1][x - 1];
            int gy = in[y + 1][x - 1] + 2 * in[y + 1][x] + in[y + 1][x + 1]
                     - in[y - 1][x - 1] - 2 * in[y - 1][x] - in[y - 1][x + 1];
            int mag = (gx < 0 ? -gx : gx) + (gy < 0 ? -gy : gy);
            out[y][x] = mag > limit ? 255 : 0;
        }
    }
#pragma endscop
}
