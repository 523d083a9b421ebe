/* Sharpening of a planar colour image: where it differs enough from its blur, the difference is
   amplified. */
void kernel_unsharp_mask(int channels, int h, int w, float threshold, float weight,
                         float img[restrict channels][h][w], float blurx[restrict channels][h][w],
                         float blury[restrict channels][h][w], float out[restrict channels][h][w])
{
#pragma scop
    for (int c = 0; c < channels; c++)
        for (int y = 2; y < h - 2; y++)
            for (int x = 0; x < w; x++)
                blurx[c][y][x] = img[c][y - 2][x] * 0.0625f + img[c][y - 1][x] * 0.25f
                                 + img[c][y][x] * 0.375f + img[c][y + 1][x] * 0.25f
                                 + img[c][y + 2][x] * 0.0625f;
    for (int c = 0; c < channels; c++)
        for (int y = 2; y < h - 2; y++)
            for (int x = 2; x < w - 2; x++)
                blury[c][y][x] = blurx[c][y][x - 2] * 0.0625f + blurx[c][y][x - 1] * 0.25f
                                 + blurx[c][y][x] * 0.375f + blurx[c][y][x + 1] * 0.25f
                                 + blurx[c][y][x + 2] * 0.0625f;
    for (int c = 0; c < channels; c++)
        for (int y = 2; y < h - 2; y++)
            for (int x = 2; x < w - 2; x++) {
                float sharp = img[c][y][x] * (1.0f + weight) - blury[c][y][x] * weight;
                float d = img[c][y][x] - blury[c][y][x];
                out[c][y][x] = (d < 0.0f ? -d : d) < threshold ? img[c][y][x] : sharp;
            }
#pragma endscop
}
