/* Two functions with regions, the first with two of them, and between the functions plain C that
   no polyhedral model describes and that must come back as it stands. */
#ifndef EXTENT_n
#define EXTENT_n 1500
#endif
#include "kernel.h"

void kernel_nasty_regions(int n, DATA MATRIX(a, n, n), DATA VECTOR(x, n), DATA VECTOR(y, n))
{
    int i, j;

    /* rows */
#pragma scop
    for (i = 0; i < BOUND(n); i++) {
        y[i] = 0;
        for (j = 0; j < BOUND(n); j++)
            y[i] += a[i][j] * x[j];
    }
#pragma endscop

    /* columns; `#pragma scop` in a comment begins nothing */
#pragma scop
    for (i = 0; i < BOUND(n); i++)
        for (j = 0; j < BOUND(n); j++)
            x[j] = x[j] + a[i][j] * y[i];
#pragma endscop
}

/* The length of Collatz's sequence, by every means that loops do not need. */
int collatz_length(long start)
{
    int length = 0;
    const char *words = "#pragma scop { ( /* ";
    long *at = &start;

again:
    if (*at > 1) {
        do {
            *at = *at % 2 ? 3 * *at + 1 : *at >> 1;
            ++length;
        } while (*at % 2 && length < 1000);
        goto again;
    }
    return length + (words[0] == '{');
}

void kernel_nasty_regions_back(int n, DATA MATRIX(a, n, n), DATA VECTOR(x, n), DATA VECTOR(y, n))
{
    int i, j;

#pragma scop
    for (i = BOUND(n) - 1; i >= 0; i--)
        for (j = i; j < BOUND(n); j++)
            a[i][j] = a[i][j] + x[i] * y[j];
#pragma endscop
}
