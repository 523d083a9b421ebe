/* Heat flow in the plane by alternating directions: in every time step a tridiagonal system along
   each column, then one along each row. p and q hold the elimination, u is the temperature. */
#ifndef EXTENT_tsteps
#define EXTENT_tsteps 50
#define EXTENT_n 1000
#endif
#include "kernel.h"

void kernel_adi(int tsteps, int n, DATA MATRIX(u, n, n), DATA MATRIX(v, n, n),
                DATA MATRIX(p, n, n), DATA MATRIX(q, n, n))
{
    int t, i, j;
    DATA h, dt, along, across;
    DATA a, b, c, d, e, f;

#pragma scop
    h = REAL(1.0) / (DATA)BOUND(n);
    dt = REAL(1.0) / (DATA)BOUND(tsteps);
    along = REAL(2.0) * dt / (h * h);
    across = REAL(1.0) * dt / (h * h);

    a = -along / REAL(2.0);
    b = REAL(1.0) + along;
    c = a;
    d = -across / REAL(2.0);
    e = REAL(1.0) + across;
    f = d;

    for (t = 1; t <= BOUND(tsteps); t++) {
        for (i = 1; i < BOUND(n) - 1; i++) {
            v[0][i] = REAL(1.0);
            p[i][0] = REAL(0.0);
            q[i][0] = v[0][i];
            for (j = 1; j < BOUND(n) - 1; j++) {
                p[i][j] = -c / (a * p[i][j - 1] + b);
                q[i][j] = (-d * u[j][i - 1] + (REAL(1.0) + REAL(2.0) * d) * u[j][i]
                           - f * u[j][i + 1] - a * q[i][j - 1]) / (a * p[i][j - 1] + b);
            }
            v[BOUND(n) - 1][i] = REAL(1.0);
            for (j = BOUND(n) - 2; j >= 1; j--)
                v[j][i] = p[i][j] * v[j + 1][i] + q[i][j];
        }
        for (i = 1; i < BOUND(n) - 1; i++) {
            u[i][0] = REAL(1.0);
            p[i][0] = REAL(0.0);
            q[i][0] = u[i][0];
            for (j = 1; j < BOUND(n) - 1; j++) {
                p[i][j] = -f / (d * p[i][j - 1] + e);
                q[i][j] = (-a * v[i - 1][j] + (REAL(1.0) + REAL(2.0) * a) * v[i][j]
                           - c * v[i + 1][j] - d * q[i][j - 1]) / (d * p[i][j - 1] + e);
            }
            u[i][BOUND(n) - 1] = REAL(1.0);
            for (j = BOUND(n) - 2; j >= 1; j--)
                u[i][j] = p[i][j] * u[i][j + 1] + q[i][j];
        }
    }
#pragma endscop
}
