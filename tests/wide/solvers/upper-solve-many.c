/* U X = B for many right-hand sides at once, from the last row upwards; X replaces B. */
#ifndef EXTENT_n
#define EXTENT_n 600
#endif
#ifndef EXTENT_m
#define EXTENT_m 500
#endif
#define N EXTENT_n
#define M EXTENT_m

void kernel_upper_solve_many(int n, int m, double U[N][N], double B[N][M])
{
#pragma scop
    for (int i = N - 1; i >= 0; --i)
        for (int c = 0; c < M; ++c) {
            double x = B[i][c];
            for (int k = i + 1; k < N; ++k)
                x -= U[i][k] * B[k][c];
            B[i][c] = x / U[i][i];
        }
#pragma endscop
}
