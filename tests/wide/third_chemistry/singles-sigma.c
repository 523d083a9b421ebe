/* Configuration interaction of single excitations: H times trial vectors, and their residuals.
   Pairs of an occupied and a virtual orbital are one index of the integrals (ia|jb). */
#include <math.h>

#ifndef EXTENT_no
#define EXTENT_roots 6
#define EXTENT_no 20
#define EXTENT_nv 64
#endif
#define NO EXTENT_no
#define NV EXTENT_nv

void kernel_singles_sigma(int roots, int no, int nv, double eo[NO], double ev[NV],
                          double ovov[NO * NV][NO * NV], double oovv[NO][NO][NV][NV],
                          double c[EXTENT_roots][NO * NV], double sigma[EXTENT_roots][NO * NV],
                          double energy[EXTENT_roots], double resid[EXTENT_roots])
{
#pragma scop
    for (int r = 0; r < roots; r++) {
        double norm = 0.0, inner = 0.0, left = 0.0;
        for (int i = 0; i < NO; i++)
            for (int a = 0; a < NV; a++)
                sigma[r][i * NV + a] = (ev[a] - eo[i]) * c[r][i * NV + a];
        for (int i = 0; i < NO; i++)
            for (int a = 0; a < NV; a++)
                for (int j = 0; j < NO; j++)
                    for (int b = 0; b < NV; b++)
                        sigma[r][i * NV + a] += (2.0 * ovov[i * NV + a][j * NV + b] - oovv[i][j][a][b])
                            * c[r][j * NV + b];
        for (int k = 0; k < NO * NV; k++) {
            norm += c[r][k] * c[r][k];
            inner += c[r][k] * sigma[r][k];
        }
        energy[r] = norm > 0.0 ? inner / norm : 0.0;
        for (int k = 0; k < NO * NV; k++) {
            double d = sigma[r][k] - energy[r] * c[r][k];
            left += d * d;
        }
        resid[r] = sqrt(left);
    }
#pragma endscop
}
