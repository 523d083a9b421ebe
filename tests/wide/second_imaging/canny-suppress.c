/* The middle of Canny's detector: gradients, thinning across the edge, weak and strong edges. */
#include <stdlib.h>

#define LOW 150
#define HIGH 420

void kernel_canny_suppress(int rows, int cols, unsigned char img[rows][cols], short gx[rows][cols],
                           short gy[rows][cols], short mag[rows][cols], unsigned char edge[rows][cols])
{
    int i, j;
#pragma scop
    for (i = 1; i < rows - 1; i++)
        for (j = 1; j < cols - 1; j++) {
            int h = img[i - 1][j + 1] + 2 * img[i][j + 1] + img[i + 1][j + 1]
                  - img[i - 1][j - 1] - 2 * img[i][j - 1] - img[i + 1][j - 1];
            int v = img[i + 1][j - 1] + 2 * img[i + 1][j] + img[i + 1][j + 1]
                  - img[i - 1][j - 1] - 2 * img[i - 1][j] - img[i - 1][j + 1];
            gx[i][j] = h;
            gy[i][j] = v;
            mag[i][j] = abs(h) + abs(v);
        }
    for (i = 2; i < rows - 2; i++)
        for (j = 2; j < cols - 2; j++) {
            int ax = abs(gx[i][j]);
            int ay = abs(gy[i][j]);
            int m = mag[i][j];
            int one, other;
            if (5 * ay < 2 * ax) {
                one = mag[i][j - 1];
                other = mag[i][j + 1];
            } else if (5 * ax < 2 * ay) {
                one = mag[i - 1][j];
                other = mag[i + 1][j];
            } else if ((gx[i][j] ^ gy[i][j]) < 0) {
                one = mag[i - 1][j + 1];
                other = mag[i + 1][j - 1];
            } else {
                one = mag[i - 1][j - 1];
                other = mag[i + 1][j + 1];
            }
            if (m > LOW && m > one && m >= other)
                edge[i][j] = m > HIGH ? 255 : 128;
            else
                edge[i][j] = 0;
        }
#pragma endscop
}
