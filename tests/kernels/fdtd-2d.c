/* Maxwell's equations in the plane: electric fields ex, ey and the magnetic field hz leapfrog. */
#ifndef EXTENT_tsteps
#define EXTENT_tsteps 200
#define EXTENT_nx 1000
#define EXTENT_ny 1200
#endif
#include "kernel.h"

void kernel_fdtd_2d(int tsteps, int nx, int ny, DATA MATRIX(ex, nx, ny), DATA MATRIX(ey, nx, ny),
                    DATA MATRIX(hz, nx, ny), DATA VECTOR(pulse, tsteps))
{
    int t, i, j;

#pragma scop
    for (t = 0; t < BOUND(tsteps); t++) {
        for (j = 0; j < BOUND(ny); j++)
            ey[0][j] = pulse[t];
        for (i = 1; i < BOUND(nx); i++)
            for (j = 0; j < BOUND(ny); j++)
                ey[i][j] = ey[i][j] - REAL(0.5) * (hz[i][j] - hz[i - 1][j]);
        for (i = 0; i < BOUND(nx); i++)
            for (j = 1; j < BOUND(ny); j++)
                ex[i][j] = ex[i][j] - REAL(0.5) * (hz[i][j] - hz[i][j - 1]);
        for (i = 0; i < BOUND(nx) - 1; i++)
            for (j = 0; j < BOUND(ny) - 1; j++)
                hz[i][j] = hz[i][j]
                           - REAL(0.7) * (ex[i][j + 1] - ex[i][j] + ey[i + 1][j] - ey[i][j]);
    }
#pragma endscop
}
