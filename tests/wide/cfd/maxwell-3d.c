/* Maxwell's equations on Yee's grid in three dimensions: electric, then magnetic fields. */
#ifndef EXTENT_n
#define EXTENT_n 110
#define EXTENT_steps 4
#endif
#define N EXTENT_n

void kernel_maxwell_3d(int steps, int n, float ex[N][N][N], float ey[N][N][N], float ez[N][N][N],
                       float hx[N][N][N], float hy[N][N][N], float hz[N][N][N])
{
    int t, i, j, k;
#pragma scop
    for (t = 0; t < steps; t++) {
        for (i = 1; i < n; i++)
            for (j = 1; j < n; j++)
                for (k = 1; k < n; k++) {
                    ex[i][j][k] += 0.25f * (hz[i][j][k] - hz[i][j - 1][k] - hy[i][j][k] + hy[i][j][k - 1]);
                    ey[i][j][k] += 0.25f * (hx[i][j][k] - hx[i][j][k - 1] - hz[i][j][k] + hz[i - 1][j][k]);
                    ez[i][j][k] += 0.25f * (hy[i][j][k] - hy[i - 1][j][k] - hx[i][j][k] + hx[i][j - 1][k]);
                }
        for (i = 0; i < n - 1; i++)
            for (j = 0; j < n - 1; j++)
                for (k = 0; k < n - 1; k++) {
                    hx[i][j][k] -= 0.25f * (ez[i][j + 1][k] - ez[i][j][k] - ey[i][j][k + 1] + ey[i][j][k]);
                    hy[i][j][k] -= 0.25f * (ex[i][j][k + 1] - ex[i][j][k] - ez[i + 1][j][k] + ez[i][j][k]);
                    hz[i][j][k] -= 0.25f * (ey[i + 1][j][k] - ey[i][j][k] - ex[i][j + 1][k] + ex[i][j][k]);
                }
    }
#pragma endscop
}
