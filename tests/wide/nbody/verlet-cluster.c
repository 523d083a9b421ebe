/* A small cluster held together by springs between all its atoms, for many steps of velocity
   Verlet: half a kick, a drift, new forces, half a kick. */
#ifndef EXTENT_steps
#define EXTENT_steps 60
#define EXTENT_n 500
#endif
#include "kernel.h"

void kernel_verlet_cluster(int steps, int n, DATA dt, DATA stiff, DATA VECTOR(x, n),
                           DATA VECTOR(y, n), DATA VECTOR(vx, n), DATA VECTOR(vy, n),
                           DATA VECTOR(fx, n), DATA VECTOR(fy, n))
{
    int t, i, j;
    DATA dx, dy, r2, pull;

#pragma scop
    for (t = 0; t < BOUND(steps); t++) {
        for (i = 0; i < BOUND(n); i++) {
            vx[i] += REAL(0.5) * dt * fx[i];
            vy[i] += REAL(0.5) * dt * fy[i];
            x[i] += dt * vx[i];
            y[i] += dt * vy[i];
        }
        for (i = 0; i < BOUND(n); i++) {
            fx[i] = 0;
            fy[i] = 0;
            for (j = 0; j < BOUND(n); j++) {
                dx = x[j] - x[i];
                dy = y[j] - y[i];
                r2 = dx * dx + dy * dy;
                pull = stiff * (r2 - REAL(1.0)) / (r2 + REAL(1.0)) / (r2 + REAL(1.0));
                fx[i] += pull * dx;
                fy[i] += pull * dy;
            }
        }
        for (i = 0; i < BOUND(n); i++) {
            vx[i] += REAL(0.5) * dt * fx[i];
            vy[i] += REAL(0.5) * dt * fy[i];
        }
    }
#pragma endscop
}
