/* Every pixel less the mean of its 7x7 window, over the window's spread; a patch without any
   structure stays zero. */
#include <math.h>

#define HALF 3
#define AREA 49.0

void kernel_local_contrast(int n, int m, double least, double picture[n][m], double out[n][m])
{
    int i, j, a, b;

#pragma scop
    for (i = 0; i < n; i++)
        for (j = 0; j < m; j++)
            out[i][j] = 0;

    for (i = HALF; i < n - HALF; i++)
        for (j = HALF; j < m - HALF; j++) {
            double s = 0, q = 0;
            for (a = i - HALF; a <= i + HALF; a++)
                for (b = j - HALF; b <= j + HALF; b++) {
                    s += picture[a][b];
                    q += picture[a][b] * picture[a][b];
                }
            double mean = s / AREA;
            double var = q / AREA - mean * mean;
            out[i][j] = var > least ? (picture[i][j] - mean) / sqrt(fmax(var, least)) : 0;
        }
#pragma endscop
}
