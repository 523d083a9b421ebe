/* Choices by data that stay inside statements: medians, clamps, signs, a table of cases. */
#ifndef EXTENT_n
#define EXTENT_n 1500
#define EXTENT_m 1300
#endif
#include "kernel.h"

void kernel_nasty_cascade(int n, int m, DATA low, DATA high, DATA MATRIX(a, n, m),
                          DATA MATRIX(b, n, m), int MATRIX(kind, n, m), DATA VECTOR(best, n))
{
    int i, j;
    DATA v;

#pragma scop
    for (i = 0; i < BOUND(n); i++)
        for (j = 1; j < BOUND(m) - 1; j++)
            b[i][j] = a[i][j - 1] < a[i][j]
                          ? (a[i][j] < a[i][j + 1]
                                 ? a[i][j]
                                 : (a[i][j - 1] < a[i][j + 1] ? a[i][j + 1] : a[i][j - 1]))
                          : (a[i][j - 1] < a[i][j + 1]
                                 ? a[i][j - 1]
                                 : (a[i][j] < a[i][j + 1] ? a[i][j + 1] : a[i][j]));
    for (i = 0; i < BOUND(n); i++) {
        best[i] = low;
        for (j = 0; j < BOUND(m); j++) {
            v = b[i][j] < low ? low : b[i][j] > high ? high : b[i][j];
            kind[i][j] = v == low ? -1 : v == high ? 1 : v != 0 && a[i][j] >= v ? 2 : v < 0 ? 3 : 0;
            best[i] = !(v <= best[i]) ? v : best[i];
            a[i][j] = (a[i][j] > 0) - (a[i][j] < 0) + (kind[i][j] == 2 || kind[i][j] == 3 ? v : -v);
        }
    }
#pragma endscop
}
