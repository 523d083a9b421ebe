/* Lattice Boltzmann with nine directions in arrays of their own: collide, then stream from the
   neighbours. */
#include "kernel.h"
#ifndef EXTENT_n
#define EXTENT_n 512
#define EXTENT_m 512
#define EXTENT_steps 3
#endif

void kernel_lattice_d2q9(int steps, int n, int m, DATA MATRIX(f0, n, m), DATA MATRIX(f1, n, m),
                         DATA MATRIX(f2, n, m), DATA MATRIX(f3, n, m), DATA MATRIX(f4, n, m),
                         DATA MATRIX(f5, n, m), DATA MATRIX(f6, n, m), DATA MATRIX(f7, n, m),
                         DATA MATRIX(f8, n, m), DATA g[SOLE 9][EXTENT(n)][EXTENT(m)])
{
    int t, i, j;

#pragma scop
    for (t = 0; t < steps; t++) {
        for (i = 0; i < BOUND(n); i++)
            for (j = 0; j < BOUND(m); j++) {
                DATA rho = f0[i][j] + f1[i][j] + f2[i][j] + f3[i][j] + f4[i][j] + f5[i][j] + f6[i][j]
                           + f7[i][j] + f8[i][j];
                DATA u = (f1[i][j] - f3[i][j] + f5[i][j] - f6[i][j] - f7[i][j] + f8[i][j]) / rho;
                DATA v = (f2[i][j] - f4[i][j] + f5[i][j] + f6[i][j] - f7[i][j] - f8[i][j]) / rho;
                DATA q = REAL(1.0) - REAL(1.5) * (u * u + v * v);
                DATA a = u + v, b = v - u;
                g[0][i][j] = f0[i][j] + REAL(0.6) * (REAL(4.0) / REAL(9.0) * rho * q - f0[i][j]);
                g[1][i][j] = f1[i][j] + REAL(0.6) * (rho / REAL(9.0) * (q + REAL(3.0) * u + REAL(4.5) * u * u) - f1[i][j]);
                g[2][i][j] = f2[i][j] + REAL(0.6) * (rho / REAL(9.0) * (q + REAL(3.0) * v + REAL(4.5) * v * v) - f2[i][j]);
                g[3][i][j] = f3[i][j] + REAL(0.6) * (rho / REAL(9.0) * (q - REAL(3.0) * u + REAL(4.5) * u * u) - f3[i][j]);
                g[4][i][j] = f4[i][j] + REAL(0.6) * (rho / REAL(9.0) * (q - REAL(3.0) * v + REAL(4.5) * v * v) - f4[i][j]);
                g[5][i][j] = f5[i][j] + REAL(0.6) * (rho / REAL(36.0) * (q + REAL(3.0) * a + REAL(4.5) * a * a) - f5[i][j]);
                g[6][i][j] = f6[i][j] + REAL(0.6) * (rho / REAL(36.0) * (q + REAL(3.0) * b + REAL(4.5) * b * b) - f6[i][j]);
                g[7][i][j] = f7[i][j] + REAL(0.6) * (rho / REAL(36.0) * (q - REAL(3.0) * a + REAL(4.5) * a * a) - f7[i][j]);
                g[8][i][j] = f8[i][j] + REAL(0.6) * (rho / REAL(36.0) * (q - REAL(3.0) * b + REAL(4.5) * b * b) - f8[i][j]);
            }
        for (i = 1; i < BOUND(n) - 1; i++)
            for (j = 1; j < BOUND(m) - 1; j++) {
                f0[i][j] = g[0][i][j];
                f1[i][j] = g[1][i][j - 1];
                f2[i][j] = g[2][i - 1][j];
                f3[i][j] = g[3][i][j + 1];
                f4[i][j] = g[4][i + 1][j];
                f5[i][j] = g[5][i - 1][j - 1];
                f6[i][j] = g[6][i - 1][j + 1];
                f7[i][j] = g[7][i + 1][j + 1];
                f8[i][j] = g[8][i + 1][j - 1];
            }
    }
#pragma endscop
}
