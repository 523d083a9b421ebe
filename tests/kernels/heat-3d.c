/* Heat flow in space, two buffers that take turns. */
#ifndef EXTENT_tsteps
#define EXTENT_tsteps 60
#define EXTENT_n 120
#endif
#include "kernel.h"

void kernel_heat_3d(int tsteps, int n, DATA CUBE(A, n, n, n), DATA CUBE(B, n, n, n))
{
    int t, i, j, k;

#pragma scop
    for (t = 1; t <= BOUND(tsteps); t++) {
        for (i = 1; i < BOUND(n) - 1; i++)
            for (j = 1; j < BOUND(n) - 1; j++)
                for (k = 1; k < BOUND(n) - 1; k++)
                    B[i][j][k] =
                        REAL(0.125) * (A[i + 1][j][k] - REAL(2.0) * A[i][j][k] + A[i - 1][j][k])
                        + REAL(0.125) * (A[i][j + 1][k] - REAL(2.0) * A[i][j][k] + A[i][j - 1][k])
                        + REAL(0.125) * (A[i][j][k + 1] - REAL(2.0) * A[i][j][k] + A[i][j][k - 1])
                        + A[i][j][k];
        for (i = 1; i < BOUND(n) - 1; i++)
            for (j = 1; j < BOUND(n) - 1; j++)
                for (k = 1; k < BOUND(n) - 1; k++)
                    A[i][j][k] =
                        REAL(0.125) * (B[i + 1][j][k] - REAL(2.0) * B[i][j][k] + B[i - 1][j][k])
                        + REAL(0.125) * (B[i][j + 1][k] - REAL(2.0) * B[i][j][k] + B[i][j - 1][k])
                        + REAL(0.125) * (B[i][j][k + 1] - REAL(2.0) * B[i][j][k] + B[i][j][k - 1])
                        + B[i][j][k];
    }
#pragma endscop
}
