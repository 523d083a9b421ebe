/* Quotients and remainders by constants in subscripts and conditions. In C they round towards
   zero: (i - 7) / 2 is -3 for i = 0 and for i = 1. */
#ifndef EXTENT_n
#define EXTENT_n 300000
#endif
#include "kernel.h"

void kernel_nasty_modulo(int n, DATA VECTOR(a, n), DATA VECTOR(b, n), DATA VECTOR(c, n),
                         DATA turns[4][3])
{
    int i, j;

#pragma scop
    for (i = 0; i < BOUND(n); i++) {
        b[i] = a[i / 2] + 2 * a[i % 7];
        if (i % 3 == 1)
            b[i] -= c[i - i % 3];
        else if (i % 5 == 4 && i / 4 > 2)
            b[i] += c[i / 4];
    }
    for (i = 0; i < BOUND(n); i++)
        turns[i % 4][i / 2 % 3] += b[i];
    for (i = 0; i < BOUND(n); i++)
        for (j = 0; j < 4; j++)
            if ((i + j) % 2 == 0)
                c[i] += turns[j][(i + 2 * j) % 3];
    for (i = 0; i < BOUND(n) - 4; i++)
        a[i] = a[i] + b[(i - 7) / 2 + 4] + b[(i - 9) % 4 + 3];
#pragma endscop
}
