/* A convolution in groups of channels, weights of one byte, sums of int, clipped to a byte. */
#define GROUPS 4
#define PER 8
#ifndef EXTENT_h
#define EXTENT_h 48
#define EXTENT_w 48
#endif

void kernel_group_conv(int h, int w, unsigned char img[GROUPS][PER][EXTENT_h + 2][EXTENT_w + 2],
                       int tap[GROUPS][PER][PER][3][3], unsigned char out[GROUPS][PER][EXTENT_h][EXTENT_w])
{
    int g, o, i, y, x, a, b;
#pragma scop
    for (g = 0; g < GROUPS; g++)
        for (o = 0; o < PER; o++)
            for (y = 0; y < h; y++)
                for (x = 0; x < w; x++) {
                    int sum = 128;
                    for (i = 0; i < PER; i++)
                        for (a = 0; a < 3; a++)
                            for (b = 0; b < 3; b++)
                                sum += tap[g][o][i][a][b] * img[g][i][y + a][x + b];
                    out[g][o][y][x] = sum < 0 ? 0 : sum > 255 ? 255 : sum;
                }
#pragma endscop
}
