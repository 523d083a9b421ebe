/* Loops that step by more than one, upwards and downwards, and meet their ends exactly or not. */
#ifndef EXTENT_n
#define EXTENT_n 1500
#define EXTENT_m 1300
#endif
#include "kernel.h"

void kernel_nasty_steps(int n, int m, DATA MATRIX(a, n, m), DATA VECTOR(b, n), DATA VECTOR(c, m))
{
    int i, j;

#pragma scop
    for (i = 0; i < BOUND(n); i += 2)
        for (j = BOUND(m) - 1; j >= 0; j -= 3)
            a[i][j] = a[i][j] + b[i] * c[j];
    for (i = BOUND(n) - 1; i > 0; i = i - 2)
        for (j = 1; j <= BOUND(m) - 1; j = j + 4)
            a[i][j] -= a[i - 1][j - 1];
    for (j = BOUND(m) - 2; 0 <= j; j -= 5)
        c[j] += c[j + 1];
    for (i = 3; BOUND(n) > i; i += 7)
        b[i] = b[i - 3] + 2 * b[i];
#pragma endscop
}
