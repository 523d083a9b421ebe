/* Dynamic time warping of two signals within a band around the diagonal. */
#include <math.h>

void kernel_time_warping(int n, int band, double a[n], double b[n], double D[n][n])
{
    int i, j;

#pragma scop
    for (i = 0; i < n; i++)
        for (j = 0; j < n; j++)
            D[i][j] = 1e9;
    D[0][0] = fabs(a[0] - b[0]);
    for (j = 1; j <= band; j++)
        D[0][j] = D[0][j - 1] + fabs(a[0] - b[j]);
    for (i = 1; i < n; i++)
        for (j = i - band > 0 ? i - band : 0; j < (i + band < n ? i + band + 1 : n); j++) {
            if (j == 0)
                D[i][j] = D[i - 1][j] + fabs(a[i] - b[j]);
            else
                D[i][j] = fmin(fmin(D[i - 1][j], D[i][j - 1]), D[i - 1][j - 1])
                          + fabs(a[i] - b[j]);
        }
#pragma endscop
}
