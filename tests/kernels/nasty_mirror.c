/* Reading and writing from the far end, and a matrix transposed in its own place. */
#ifndef EXTENT_n
#define EXTENT_n 1500
#endif
#include "kernel.h"

void kernel_nasty_mirror(int n, DATA MATRIX(a, n, n), DATA VECTOR(x, n), DATA VECTOR(y, n))
{
    int i, j;
    DATA held;

#pragma scop
    for (i = 0; i < BOUND(n); i++)
        y[i] = x[i] + 2 * x[BOUND(n) - 1 - i];
    /* reads what earlier turns wrote once i is past the middle */
    for (i = 0; i < BOUND(n); i++)
        x[i] = x[BOUND(n) - 1 - i] - y[i];
    for (i = 0; i < BOUND(n) / 2; i++) {
        held = y[i];
        y[i] = y[BOUND(n) - 1 - i];
        y[BOUND(n) - i - 1] = held;
    }
    for (i = 0; i < BOUND(n); i++)
        for (j = i + 1; j < BOUND(n); j++) {
            held = a[i][j];
            a[i][j] = a[j][i];
            a[j][i] = held;
        }
    for (i = 0; i < BOUND(n); i++)
        for (j = 0; j < BOUND(n) - 1 - i; j++)
            a[i][j] = a[i][j] - a[BOUND(n) - 1 - j][BOUND(n) - 1 - i];
#pragma endscop
}
