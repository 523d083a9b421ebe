/* Products of matrices, one after another, each shared out to all cores:
 *
 *     loopwright explain examples/athread/batched.c --target athread
 *
 * shows the panels that cores give to each other and what the model predicts; -DN=64 makes a run on
 * the emulator short (cc --target athread -o out --run). */
#include <stdio.h>

#ifndef N
#define N 512
#endif
enum { MANY = 8 };

static double a[MANY][N][N], b[MANY][N][N], c[MANY][N][N];

int main(void)
{
    for (int m = 0; m < MANY; m++)
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) {
                a[m][i][j] = (m + i + 2 * j) % 7 - 3;
                b[m][i][j] = (m + 3 * i + j) % 5 - 2;
            }

#pragma scop
    for (int m = 0; m < MANY; m++)
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) {
                c[m][i][j] = 0.0;
                for (int k = 0; k < N; k++)
                    c[m][i][j] += a[m][i][k] * b[m][k][j];
            }
#pragma endscop

    double sum = 0.0;
    for (int m = 0; m < MANY; m++)
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++)
                sum += (i + j) % 3 * c[m][i][j];
    printf("%.0f\n", sum);
    return 0;
}
