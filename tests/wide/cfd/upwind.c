/* Advection by a wind that changes sign: the difference is taken from where the wind comes. */
#ifndef EXTENT_n
#define EXTENT_n 1500
#define EXTENT_steps 6
#endif

void kernel_upwind(int steps, int n, float dt, float q[EXTENT_n][EXTENT_n], float next[EXTENT_n][EXTENT_n],
                   float u[EXTENT_n][EXTENT_n], float v[EXTENT_n][EXTENT_n])
{
#pragma scop
    for (int t = 0; t < steps; t++) {
        for (int i = 1; i < n - 1; i++)
            for (int j = 1; j < n - 1; j++) {
                float dx = u[i][j] > 0.0f ? q[i][j] - q[i - 1][j] : q[i + 1][j] - q[i][j];
                float dy = v[i][j] > 0.0f ? q[i][j] - q[i][j - 1] : q[i][j + 1] - q[i][j];
                next[i][j] = q[i][j] - dt * (u[i][j] * dx + v[i][j] * dy);
            }
        for (int i = 1; i < n - 1; i++)
            for (int j = 1; j < n - 1; j++)
                q[i][j] = next[i][j];
    }
#pragma endscop
}
