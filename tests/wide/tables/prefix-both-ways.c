/* Running totals along the rows, then down the columns of what came out. */
#ifndef EXTENT_n
#define EXTENT_n 4000
#endif
#ifndef EXTENT_m
#define EXTENT_m 4000
#endif
#include "kernel.h"

void kernel_prefix_both_ways(int n, int m, DATA MATRIX(a, n, m), DATA MATRIX(s, n, m))
{
    int i, j;

#pragma scop
    for (i = 0; i < BOUND(n); i++) {
        s[i][0] = a[i][0];
        for (j = 1; j < BOUND(m); j++)
            s[i][j] = s[i][j - 1] + a[i][j];
    }
    for (j = 0; j < BOUND(m); j++)
        for (i = 1; i < BOUND(n); i++)
            s[i][j] += s[i - 1][j];
#pragma endscop
}
