/* Labels spread to neighbours, the greatest wins; two arrays take turns. */
#include "kernel.h"
#ifndef EXTENT_n
#define EXTENT_n 1800
#define EXTENT_half 8
#endif

void kernel_label_spread(int n, int half, unsigned char MATRIX(adj, n, n), int VECTOR(even, n),
                         int VECTOR(odd, n))
{
    int t, i, j;

#pragma scop
    for (t = 0; t < half; t++) {
        for (i = 0; i < BOUND(n); i++) {
            odd[i] = even[i];
            for (j = 0; j < BOUND(n); j++)
                odd[i] = GREATER(odd[i], adj[i][j] * even[j]);
        }
        for (i = 0; i < BOUND(n); i++) {
            even[i] = odd[i];
            for (j = 0; j < BOUND(n); j++)
                even[i] = GREATER(even[i], adj[i][j] * odd[j]);
        }
    }
#pragma endscop
}
