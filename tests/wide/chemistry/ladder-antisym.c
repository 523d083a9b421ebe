/* The particle ladder of coupled clusters: amplitudes that change sign with their pairs. */
#include "kernel.h"
#ifndef EXTENT_o
#define EXTENT_o 12
#define EXTENT_v 48
#endif

void kernel_ladder_antisym(int o, int v, DATA t2[SOLE EXTENT(o)][EXTENT(o)][EXTENT(v)][EXTENT(v)],
                           DATA vvvv[SOLE EXTENT(v)][EXTENT(v)][EXTENT(v)][EXTENT(v)],
                           DATA r2[SOLE EXTENT(o)][EXTENT(o)][EXTENT(v)][EXTENT(v)])
{
    int i, j, a, b, c, d;

#pragma scop
    for (i = 0; i < BOUND(o); i++)
        for (j = 0; j < i; j++)
            for (a = 0; a < BOUND(v); a++)
                for (b = 0; b < a; b++) {
                    DATA sum = 0;
                    for (c = 0; c < BOUND(v); c++)
                        for (d = 0; d < c; d++)
                            sum += vvvv[a][b][c][d] * t2[i][j][c][d];
                    r2[i][j][a][b] += sum;
                    r2[j][i][a][b] -= sum;
                    r2[i][j][b][a] -= sum;
                    r2[j][i][b][a] += sum;
                }
#pragma endscop
}
