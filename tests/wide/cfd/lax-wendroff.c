/* Lax and Wendroff's two half steps for advection of many independent lines. */
#include "kernel.h"
#ifndef EXTENT_lines
#define EXTENT_lines 400
#define EXTENT_n 2000
#define EXTENT_steps 20
#endif

void kernel_lax_wendroff(int steps, int lines, int n, DATA c, DATA MATRIX(u, lines, n),
                         DATA MATRIX(mid, lines, n))
{
    int t, l, i;

#pragma scop
    for (l = 0; l < BOUND(lines); l++)
        for (t = 0; t < steps; t++) {
            for (i = 0; i < BOUND(n) - 1; i++)
                mid[l][i] = REAL(0.5) * (u[l][i] + u[l][i + 1]) - REAL(0.5) * c * (u[l][i + 1] - u[l][i]);
            for (i = 1; i < BOUND(n) - 1; i++)
                u[l][i] -= c * (mid[l][i] - mid[l][i - 1]);
        }
#pragma endscop
}
