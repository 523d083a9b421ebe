/* A product that writes its result whole, a second region that reads it, and integers. */
#include <stdio.h>

#define NI 37
#define NJ 29
#define NK 18

static void fill(int n, int m, double a[n][m], int by)
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            a[i][j] = (i * by + j) % 7 - 3;
#pragma endscop
}

int main(void)
{
    static double A[NI][NK], B[NK][NJ], C[NI][NJ];
    static int best[NI];
    double alpha = 1.5;
    int i, j, k;
    fill(NI, NK, A, 3);
    fill(NK, NJ, B, 5);
#pragma scop
    for (i = 0; i < NI; i++)
        for (j = 0; j < NJ; j++) {
            C[i][j] = 0;
            for (k = 0; k < NK; k++)
                C[i][j] += alpha * A[i][k] * B[k][j];
        }
    for (i = 0; i < NI; i++) {
        best[i] = -1000;
        for (j = 0; j < NJ; j++)
            if (C[i][j] > best[i])
                best[i] = C[i][j];
    }
#pragma endscop
    for (i = 0; i < NI; i += 5)
        printf("%d %.2f %d\n", i, C[i][i % NJ], best[i]);
    return 0;
}
