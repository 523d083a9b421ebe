/* Scores of rows of bytes against each other: sums in 32 bits, then scaled by two factors. */
#include <stdint.h>
#ifndef EXTENT_n
#define EXTENT_n 1500
#endif
#ifndef EXTENT_m
#define EXTENT_m 1400
#endif
#ifndef EXTENT_k
#define EXTENT_k 1024
#endif

void kernel_quantised_rows(int n, int m, int k, int8_t a[EXTENT_n][EXTENT_k],
                           int8_t b[EXTENT_m][EXTENT_k], float sa[EXTENT_n], float sb[EXTENT_m],
                           int32_t dots[EXTENT_n][EXTENT_m], float score[EXTENT_n][EXTENT_m])
{
#pragma scop
    for (int i = 0; i < EXTENT_n; i++)
        for (int j = 0; j < EXTENT_m; j++) {
            int32_t acc = 0;
            for (int l = 0; l < EXTENT_k; l++)
                acc += (int32_t)a[i][l] * (int32_t)b[j][l];
            dots[i][j] = acc;
            score[i][j] = acc * sa[i] * sb[j];
        }
#pragma endscop
}
