/* Heat in a plate of varying conductivity; the time level is the parity of the step. */
#ifndef EXTENT_n
#define EXTENT_n 1000
#define EXTENT_steps 20
#endif
#ifndef N
#define N EXTENT_n
#endif

void kernel_heat_parity(int steps, int n, double A[2][N][N], double k[N][N])
{
    int t, i, j;
#pragma scop
    for (t = 0; t < steps; t++)
        for (i = 1; i < n - 1; i++)
            for (j = 1; j < n - 1; j++)
                A[(t + 1) % 2][i][j] = A[t % 2][i][j]
                    + 0.125 * k[i][j] * (A[t % 2][i + 1][j] - 2.0 * A[t % 2][i][j] + A[t % 2][i - 1][j])
                    + 0.125 * k[i][j] * (A[t % 2][i][j + 1] - 2.0 * A[t % 2][i][j] + A[t % 2][i][j - 1]);
#pragma endscop
}
