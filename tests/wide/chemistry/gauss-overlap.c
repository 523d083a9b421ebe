/* Overlaps of spherical Gaussians by summing their products over the points of a grid. */
#include <math.h>

#ifndef EXTENT_np
#define EXTENT_np 4000
#define EXTENT_nb 48
#endif

void kernel_gauss_overlap(int np, int nb, double grid[EXTENT_np][3], double weight[EXTENT_np],
                          double centre[EXTENT_nb][3], double alpha[EXTENT_nb],
                          double chi[EXTENT_np][EXTENT_nb], double S[EXTENT_nb][EXTENT_nb])
{
#pragma scop
    for (int g = 0; g < np; g++)
        for (int b = 0; b < nb; b++) {
            double dx = grid[g][0] - centre[b][0];
            double dy = grid[g][1] - centre[b][1];
            double dz = grid[g][2] - centre[b][2];
            chi[g][b] = exp(-alpha[b] * (dx * dx + dy * dy + dz * dz));
        }
    for (int b = 0; b < nb; b++)
        for (int c = 0; c < nb; c++)
            S[b][c] = 0.0;
    for (int g = 0; g < np; g++)
        for (int b = 0; b < nb; b++)
            for (int c = 0; c < nb; c++)
                S[b][c] += weight[g] * chi[g][b] * chi[g][c];
#pragma endscop
}
