/* A summed-area table, and the mean over 9x9 squares taken from four of its corners. */
#define R 4

void kernel_box_by_integral(int h, int w, unsigned img[h][w], unsigned sat[h][w],
                            unsigned mean[h][w])
{
    int i, j;

#pragma scop
    sat[0][0] = img[0][0];
    for (j = 1; j < w; j++)
        sat[0][j] = sat[0][j - 1] + img[0][j];
    for (i = 1; i < h; i++) {
        sat[i][0] = sat[i - 1][0] + img[i][0];
        for (j = 1; j < w; j++)
            sat[i][j] = img[i][j] + sat[i - 1][j] + sat[i][j - 1] - sat[i - 1][j - 1];
    }
    for (i = R + 1; i < h - R; i++)
        for (j = R + 1; j < w - R; j++)
            mean[i][j] = (sat[i + R][j + R] - sat[i - R - 1][j + R] - sat[i + R][j - R - 1]
                          + sat[i - R - 1][j - R - 1]) / ((2 * R + 1) * (2 * R + 1));
#pragma endscop
}
