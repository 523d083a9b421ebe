/* A 3x3 convolution that keeps the size: taps outside of the image are left out by conditions. */
#ifndef EXTENT_h
#define EXTENT_h 56
#define EXTENT_w 56
#define EXTENT_c 32
#define EXTENT_f 32
#endif

void kernel_conv_padded(int h, int w, int c, int f, double img[EXTENT_c][EXTENT_h][EXTENT_w],
                        double tap[EXTENT_f][EXTENT_c][3][3], double out[EXTENT_f][EXTENT_h][EXTENT_w])
{
#pragma scop
    for (int o = 0; o < f; o++)
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++) {
                double sum = 0.0;
                for (int i = 0; i < c; i++)
                    for (int dy = -1; dy <= 1; dy++)
                        for (int dx = -1; dx <= 1; dx++)
                            if (y + dy >= 0 && y + dy < h && x + dx >= 0 && x + dx < w)
                                sum += img[i][y + dy][x + dx] * tap[o][i][dy + 1][dx + 1];
                out[o][y][x] = sum;
            }
#pragma endscop
}
