/* LU without pivoting by panels of 32 columns: panel, row of blocks, what remains. */
#ifndef EXTENT_n
#define EXTENT_n 448
#endif
#define N EXTENT_n
#define NB 32

void kernel_lu_panels(int n, double A[N][N])
{
    int p, i, j, k;
#pragma scop
    for (p = 0; p < n; p += NB) {
        for (k = p; k < p + NB; k++)
            for (i = k + 1; i < n; i++) {
                A[i][k] /= A[k][k];
                for (j = k + 1; j < p + NB; j++)
                    A[i][j] -= A[i][k] * A[k][j];
            }
        for (k = p; k < p + NB; k++)
            for (i = k + 1; i < p + NB; i++)
                for (j = p + NB; j < n; j++)
                    A[i][j] -= A[i][k] * A[k][j];
        for (i = p + NB; i < n; i++)
            for (j = p + NB; j < n; j++)
                for (k = p; k < p + NB; k++)
                    A[i][j] -= A[i][k] * A[k][j];
    }
#pragma endscop
}
