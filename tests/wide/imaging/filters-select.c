/* Two separable smoothings, narrow and wide; the narrow one is kept where they disagree. */
#ifndef EXTENT_n
#define EXTENT_n 2400
#define EXTENT_m 3600
#endif
#include "kernel.h"

void kernel_filters_select(int n, int m, DATA limit, DATA MATRIX(in, n, m), DATA MATRIX(across, n, m),
                           DATA MATRIX(narrow, n, m), DATA MATRIX(along, n, m),
                           DATA MATRIX(wide, n, m), DATA MATRIX(out, n, m))
{
    int i, j;
    DATA gap;

#pragma scop
    for (i = 0; i < BOUND(n); i++)
        for (j = 1; j < BOUND(m) - 1; j++)
            across[i][j] = REAL(0.25) * in[i][j - 1] + REAL(0.5) * in[i][j]
                           + REAL(0.25) * in[i][j + 1];
    for (i = 1; i < BOUND(n) - 1; i++)
        for (j = 1; j < BOUND(m) - 1; j++)
            narrow[i][j] = REAL(0.25) * across[i - 1][j] + REAL(0.5) * across[i][j]
                           + REAL(0.25) * across[i + 1][j];
    for (i = 0; i < BOUND(n); i++)
        for (j = 3; j < BOUND(m) - 3; j++)
            along[i][j] = REAL(0.125) * (in[i][j - 3] + in[i][j - 2] + in[i][j - 1] + 2 * in[i][j]
                                         + in[i][j + 1] + in[i][j + 2] + in[i][j + 3]);
    for (i = 3; i < BOUND(n) - 3; i++)
        for (j = 3; j < BOUND(m) - 3; j++)
            wide[i][j] = REAL(0.125) * (along[i - 3][j] + along[i - 2][j] + along[i - 1][j]
                                        + 2 * along[i][j] + along[i + 1][j] + along[i + 2][j]
                                        + along[i + 3][j]);
    for (i = 3; i < BOUND(n) - 3; i++)
        for (j = 3; j < BOUND(m) - 3; j++) {
            gap = narrow[i][j] - wide[i][j];
            out[i][j] = gap * gap > limit ? narrow[i][j] : wide[i][j];
        }
#pragma endscop
}
