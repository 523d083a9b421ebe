/* Affine conditions: chains of else if, and, or, not, equalities, conditions around whole loops. */
#ifndef EXTENT_n
#define EXTENT_n 1500
#define EXTENT_m 1300
#endif
#include "kernel.h"

void kernel_nasty_branches(int n, int m, DATA MATRIX(a, n, m), DATA MATRIX(b, n, m),
                           DATA VECTOR(edge, n))
{
    int i, j;

#pragma scop
    for (i = 0; i < BOUND(n); i++) {
        for (j = 0; j < BOUND(m); j++) {
            if (i == 0 || j == 0)
                b[i][j] = a[i][j];
            else if (i == j)
                b[i][j] = a[i][j] + a[i - 1][j - 1];
            else if (i + j == BOUND(n) - 1)
                b[i][j] = a[i][j] - a[i - 1][j];
            else if (i < j && j < BOUND(m) - 1)
                b[i][j] = a[i - 1][j + 1];
            else
                b[i][j] = a[i][j] - a[i][j - 1];

            if (!(j > 2 * i) && i != j + 3) {
                b[i][j] += 1;
                if (j >= 5 && (i <= 7 || i >= 11))
                    b[i][j] *= 2;
            }
        }
        if (i > 2) {
            for (j = 0; j < BOUND(m); j++)
                a[i - 3][j] += b[i - 2][j];
            edge[i] = b[i - 1][0];
        } else {
            edge[i] = i;
        }
    }
#pragma endscop
}
