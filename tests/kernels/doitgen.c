/* A[r][q][:] = A[r][q][:] C for every r and q. */
#ifndef EXTENT_nr
#define EXTENT_nr 150
#define EXTENT_nq 140
#define EXTENT_np 160
#endif
#include "kernel.h"

void kernel_doitgen(int nr, int nq, int np, DATA CUBE(A, nr, nq, np), DATA MATRIX(C, np, np),
                    DATA VECTOR(line, np))
{
    int r, q, p, s;

#pragma scop
    for (r = 0; r < BOUND(nr); r++)
        for (q = 0; q < BOUND(nq); q++) {
            for (p = 0; p < BOUND(np); p++) {
                line[p] = REAL(0.0);
                for (s = 0; s < BOUND(np); s++)
                    line[p] += A[r][q][s] * C[s][p];
            }
            for (p = 0; p < BOUND(np); p++)
                A[r][q][p] = line[p];
        }
#pragma endscop
}
