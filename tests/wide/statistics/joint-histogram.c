/* Joint counts of two variables: indicators of the bins of each by comparison with the edges, and
   the product of the two indicator matrices. */
#ifndef EXTENT_n
#define EXTENT_n 100000
#define EXTENT_bins 24
#define EXTENT_edges 25
#endif
#include "kernel.h"

#include <stdint.h>

void kernel_joint_histogram(int n, int bins, int edges, DATA VECTOR(x, n), DATA VECTOR(y, n),
                            DATA VECTOR(edge, edges), uint8_t MATRIX(inx, n, bins),
                            uint8_t MATRIX(iny, n, bins), int MATRIX(count, bins, bins))
{
    int i, a, b;

#pragma scop
    for (i = 0; i < BOUND(n); i++)
        for (a = 0; a < BOUND(bins); a++) {
            inx[i][a] = x[i] >= edge[a] && x[i] < edge[a + 1];
            iny[i][a] = y[i] >= edge[a] && y[i] < edge[a + 1];
        }
    for (a = 0; a < BOUND(bins); a++)
        for (b = 0; b < BOUND(bins); b++)
            count[a][b] = 0;
    for (i = 0; i < BOUND(n); i++)
        for (a = 0; a < BOUND(bins); a++)
            for (b = 0; b < BOUND(bins); b++)
                count[a][b] += inx[i][a] * iny[i][b];
#pragma endscop
}
