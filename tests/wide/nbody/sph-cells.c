/* Smoothed particles in a cube of cells with equal numbers in each: densities by the poly6 kernel,
   then pressures by a stiff equation of state. */
#ifndef EXTENT_n
#define EXTENT_n 26
#endif
#include "kernel.h"

#define EACH 6

void kernel_sph_cells(int n, DATA h2, DATA rest, DATA place[3][EXTENT(n)][EXTENT(n)][EXTENT(n)][EACH],
                      DATA density[EXTENT(n)][EXTENT(n)][EXTENT(n)][EACH],
                      DATA pressure[EXTENT(n)][EXTENT(n)][EXTENT(n)][EACH])
{
    int i, j, k, a, di, dj, dk, b;
    DATA x, y, z, gap, sum, ratio;

#pragma scop
    for (i = 1; i < BOUND(n) - 1; i++)
        for (j = 1; j < BOUND(n) - 1; j++)
            for (k = 1; k < BOUND(n) - 1; k++)
                for (a = 0; a < EACH; a++) {
                    sum = 0;
                    for (di = -1; di <= 1; di++)
                        for (dj = -1; dj <= 1; dj++)
                            for (dk = -1; dk <= 1; dk++)
                                for (b = 0; b < EACH; b++) {
                                    x = place[0][i + di][j + dj][k + dk][b] - place[0][i][j][k][a]
                                        + di;
                                    y = place[1][i + di][j + dj][k + dk][b] - place[1][i][j][k][a]
                                        + dj;
                                    z = place[2][i + di][j + dj][k + dk][b] - place[2][i][j][k][a]
                                        + dk;
                                    gap = GREATER(h2 - (x * x + y * y + z * z), 0);
                                    sum += gap * gap * gap;
                                }
                    density[i][j][k][a] = sum;
                }
    for (i = 1; i < BOUND(n) - 1; i++)
        for (j = 1; j < BOUND(n) - 1; j++)
            for (k = 1; k < BOUND(n) - 1; k++)
                for (a = 0; a < EACH; a++) {
                    ratio = density[i][j][k][a] / rest;
                    pressure[i][j][k][a] = ratio * ratio * ratio - REAL(1.0);
                }
#pragma endscop
}
