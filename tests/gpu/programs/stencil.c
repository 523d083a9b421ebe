/* A time loop, a function that is called twice, sizes as arguments, names that C++ reserves. */
#include <stdio.h>

#define N 40
static double old[N][N], new[N][N];

static void relax(int steps, int n, double this[N][N], double new[N][N])
{
    int t, i, j;
#pragma scop
    for (t = 0; t < steps; t++) {
        for (i = 1; i < n - 1; i++)
            for (j = 1; j < n - 1; j++)
                new[i][j] = 0.25 * (this[i - 1][j] + this[i + 1][j] + this[i][j - 1] + this[i][j + 1]);
        for (i = 1; i < n - 1; i++)
            for (j = 1; j < n - 1; j++)
                this[i][j] = new[i][j];
    }
#pragma endscop
}

int main(void)
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            old[i][j] = new[i][j] = (i * 7 + j * 3) % 11;
    relax(3, N, old, new);
    relax(2, 9, new, old);
    relax(0, N, new, old);
    double sum = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            sum += old[i][j] * (i + 1) + new[i][j] * (j + 2);
    printf("%.9f %.9f %.9f\n", sum, old[5][6], new[N - 2][3]);
    return 0;
}
