/* Heat in a square plate, by steps of time: what a C program of one's own looks like before
 *
 *     loopwright cc examples/athread/heat.c --target athread -o out --run --profile
 *
 * makes of it a program for Sunway's compute cores, and runs that here. */
#include <stdio.h>

enum { N = 200, STEPS = 4 };

static double now[N][N], next[N][N];

int main(void)
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            now[i][j] = next[i][j] = i == 0 || j == N - 1 ? 100.0 : 0.0;

#pragma scop
    for (int t = 0; t < STEPS; t++) {
        for (int i = 1; i < N - 1; i++)
            for (int j = 1; j < N - 1; j++)
                next[i][j] =
                    0.25 * (now[i - 1][j] + now[i + 1][j] + now[i][j - 1] + now[i][j + 1]);
        for (int i = 1; i < N - 1; i++)
            for (int j = 1; j < N - 1; j++)
                now[i][j] = next[i][j];
    }
#pragma endscop

    double sum = 0.0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            sum += now[i][j];
    printf("mean temperature %.12f\n", sum / (N * N));
    return 0;
}
