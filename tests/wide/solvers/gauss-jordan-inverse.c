/* The inverse of a matrix in place by Gauss and Jordan, without exchanges of rows. */
#ifndef EXTENT_n
#define EXTENT_n 600
#endif
#define N EXTENT_n

void kernel_gauss_jordan_inverse(int n, double A[N][N])
{
    int i, j, k;
    double pivot, factor;

#pragma scop
    for (k = 0; k < N; k++) {
        pivot = 1.0 / A[k][k];
        A[k][k] = 1.0;
        for (j = 0; j < N; j++)
            A[k][j] *= pivot;
        for (i = 0; i < N; i++) {
            if (i != k) {
                factor = A[i][k];
                A[i][k] = 0.0;
                for (j = 0; j < N; j++)
                    A[i][j] -= factor * A[k][j];
            }
        }
    }
#pragma endscop
}
