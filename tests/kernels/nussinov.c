/* Folding of RNA: the most pairs of matching bases within each stretch of the sequence. */
#ifndef EXTENT_n
#define EXTENT_n 1500
#endif
#ifndef DATA
#define DATA int
#endif
#include "kernel.h"

typedef char base;

#define PAIRS(b, c) (((b) + (c)) == 3 ? 1 : 0)

void kernel_nussinov(int n, base VECTOR(seq, n), DATA MATRIX(best, n, n))
{
    int i, j, k;

#pragma scop
    for (i = BOUND(n) - 1; i >= 0; i--) {
        for (j = i + 1; j < BOUND(n); j++) {
            if (j - 1 >= 0)
                best[i][j] = GREATER(best[i][j], best[i][j - 1]);
            if (i + 1 < BOUND(n))
                best[i][j] = GREATER(best[i][j], best[i + 1][j]);
            if (j - 1 >= 0 && i + 1 < BOUND(n)) {
                /* neighbours cannot pair */
                if (i < j - 1)
                    best[i][j] = GREATER(best[i][j], best[i + 1][j - 1] + PAIRS(seq[i], seq[j]));
                else
                    best[i][j] = GREATER(best[i][j], best[i + 1][j - 1]);
            }
            for (k = i + 1; k < j; k++)
                best[i][j] = GREATER(best[i][j], best[i][k] + best[k + 1][j]);
        }
    }
#pragma endscop
}
