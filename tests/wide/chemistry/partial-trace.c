/* The density matrix of a subsystem: the trace over the other one, and its purity. */
#include "kernel.h"
#ifndef EXTENT_na
#define EXTENT_na 60
#define EXTENT_nb 60
#endif

void kernel_partial_trace(int na, int nb,
                          DATA rho[SOLE EXTENT(na)][EXTENT(nb)][EXTENT(na)][EXTENT(nb)],
                          DATA MATRIX(sub, na, na), DATA VECTOR(purity, na))
{
    int i, j, k;

#pragma scop
    for (i = 0; i < BOUND(na); i++)
        for (j = 0; j < BOUND(na); j++) {
            sub[i][j] = 0;
            for (k = 0; k < BOUND(nb); k++)
                sub[i][j] += rho[i][k][j][k];
        }
    for (i = 0; i < BOUND(na); i++) {
        purity[i] = 0;
        for (j = 0; j < BOUND(na); j++)
            purity[i] += sub[i][j] * sub[j][i];
    }
#pragma endscop
}
