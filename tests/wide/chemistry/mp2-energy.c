/* The correlation energy of second order from integrals (ia|jb) and orbital energies. */
#include "kernel.h"
#ifndef EXTENT_no
#define EXTENT_no 40
#define EXTENT_nv 100
#endif

void kernel_mp2_energy(int no, int nv, DATA ovov[SOLE EXTENT(no)][EXTENT(nv)][EXTENT(no)][EXTENT(nv)],
                       DATA VECTOR(eo, no), DATA VECTOR(ev, nv), DATA pair[SOLE EXTENT(no)][EXTENT(no)])
{
    int i, j, a, b;

#pragma scop
    for (i = 0; i < BOUND(no); i++)
        for (j = 0; j < BOUND(no); j++) {
            pair[i][j] = 0;
            for (a = 0; a < BOUND(nv); a++)
                for (b = 0; b < BOUND(nv); b++)
                    pair[i][j] += ovov[i][a][j][b] * (2 * ovov[i][a][j][b] - ovov[i][b][j][a])
                                  / (eo[i] + eo[j] - ev[a] - ev[b]);
        }
#pragma endscop
}
