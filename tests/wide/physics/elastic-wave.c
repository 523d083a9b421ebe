/* Elastic waves in the plane: velocities and stresses on staggered grids. */
#ifndef EXTENT_steps
#define EXTENT_steps 8
#endif
#ifndef EXTENT_nx
#define EXTENT_nx 1000
#endif
#ifndef EXTENT_nz
#define EXTENT_nz 1000
#endif
#define NX EXTENT_nx
#define NZ EXTENT_nz

void kernel_elastic_wave(int steps, int nx, int nz, double vx[NX][NZ], double vz[NX][NZ],
                         double sxx[NX][NZ], double szz[NX][NZ], double sxz[NX][NZ],
                         double buoyancy[NX][NZ], double lambda[NX][NZ], double mu[NX][NZ])
{
    int t, i, j;

#pragma scop
    for (t = 0; t < steps; t++) {
        for (i = 1; i < NX - 1; i++)
            for (j = 1; j < NZ - 1; j++) {
                vx[i][j] += buoyancy[i][j]
                    * (sxx[i][j] - sxx[i - 1][j] + sxz[i][j] - sxz[i][j - 1]);
                vz[i][j] += buoyancy[i][j]
                    * (sxz[i + 1][j] - sxz[i][j] + szz[i][j + 1] - szz[i][j]);
            }
        for (i = 1; i < NX - 1; i++)
            for (j = 1; j < NZ - 1; j++) {
                double ex = vx[i + 1][j] - vx[i][j];
                double ez = vz[i][j] - vz[i][j - 1];
                sxx[i][j] += (lambda[i][j] + 2 * mu[i][j]) * ex + lambda[i][j] * ez;
                szz[i][j] += lambda[i][j] * ex + (lambda[i][j] + 2 * mu[i][j]) * ez;
                sxz[i][j] += mu[i][j]
                    * (vx[i][j + 1] - vx[i][j] + vz[i][j] - vz[i - 1][j]);
            }
    }
#pragma endscop
}
