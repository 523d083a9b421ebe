/* Bilinear elements on a structured grid: the element matrix, times a coefficient, added up. */
#ifndef EXTENT_nx
#define EXTENT_nx 2400
#endif
#ifndef EXTENT_ny
#define EXTENT_ny 2400
#endif
#include "kernel.h"

void kernel_q1_stiffness(int nx, int ny, DATA K[4][4], DATA MATRIX(coef, nx, ny),
                         DATA MATRIX(x, nx, ny), DATA MATRIX(y, nx, ny))
{
#pragma scop
    for (int i = 0; i < BOUND(nx); i++)
        for (int j = 0; j < BOUND(ny); j++)
            y[i][j] = 0;
    for (int i = 0; i < BOUND(nx) - 1; i++)
        for (int j = 0; j < BOUND(ny) - 1; j++)
            for (int a = 0; a < 2; a++)
                for (int b = 0; b < 2; b++)
                    for (int c = 0; c < 2; c++)
                        for (int d = 0; d < 2; d++)
                            y[i + a][j + b] +=
                                coef[i][j] * K[2 * a + b][2 * c + d] * x[i + c][j + d];
#pragma endscop
}
