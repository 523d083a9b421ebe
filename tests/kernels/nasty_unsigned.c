/* Unsigned arithmetic that wraps, long sums, iterators that are long: hashes and checksums. */
#ifndef EXTENT_n
#define EXTENT_n 1500
#define EXTENT_m 1300
#endif
#include "kernel.h"

void kernel_nasty_unsigned(int n, int m, unsigned MATRIX(a, n, m), unsigned VECTOR(hash, n),
                           long VECTOR(sum, n), unsigned long VECTOR(wide, m),
                           unsigned short VECTOR(folded, n))
{
    long i, j;
    unsigned h;

#pragma scop
    for (i = 0; i < BOUND(n); i++) {
        h = 2166136261u;
        sum[i] = 0L;
        for (j = 0; j < BOUND(m); j++) {
            h = (h ^ a[i][j]) * 16777619u;
            sum[i] += (long)a[i][j] * (j - i);
        }
        hash[i] = h;
        folded[i] = h % 65521u + h / 65536u;
    }
    for (j = 0; j < BOUND(m); j++)
        for (i = 0; i < BOUND(n); i++)
            wide[j] = wide[j] * 6364136223846793005UL + (a[i][j] & 255u) + hash[i];
    for (i = 1; i < BOUND(n); i++)
        for (j = 0; j < BOUND(m); j++)
            a[i][j] = a[i][j] - a[i - 1][j] > 2147483647u ? a[i][j] | 1u : a[i][j] - 2u * hash[i];
#pragma endscop
}
