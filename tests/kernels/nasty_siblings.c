/* Neighbouring nests that share scalars: some carried from one nest to the next, some reused. */
#ifndef EXTENT_n
#define EXTENT_n 1500
#endif
#include "kernel.h"

void kernel_nasty_siblings(int n, DATA MATRIX(a, n, n), DATA VECTOR(x, n), DATA VECTOR(y, n),
                           DATA VECTOR(total, n))
{
    int i, j;
    DATA s, largest, last;

#pragma scop
    s = 0;
    largest = 0;
    for (i = 0; i < BOUND(n); i++) {
        s += x[i];
        largest = x[i] > largest ? x[i] : largest;
    }
    /* s and largest are live here, last is not yet */
    for (i = 0; i < BOUND(n); i++) {
        last = x[i] - largest;
        for (j = 0; j < BOUND(n); j++) {
            a[i][j] = a[i][j] + s - last;
            last = a[i][j];
        }
        y[i] = last;
    }
    for (i = 0; i < BOUND(n); i++) {
        s = REAL(0.0);
        for (j = 0; j <= i; j++)
            s += a[i][j];
        for (j = i + 1; j < BOUND(n); j++)
            s -= a[i][j];
        total[i] = s;
    }
    for (i = 0; i < BOUND(n); i++)
        x[i] = x[i] + s + y[i];
#pragma endscop
}
