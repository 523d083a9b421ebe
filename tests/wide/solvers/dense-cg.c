/* Conjugate gradients on a dense matrix for a fixed number of steps. */
void kernel_dense_cg(int steps, int n, double A[restrict static n][n], double b[restrict static n],
                     double x[restrict static n], double r[restrict static n],
                     double p[restrict static n], double q[restrict static n])
{
    double rho, old, pq, alpha, beta;

#pragma scop
    rho = 0.0;
    for (int i = 0; i < n; i++) {
        x[i] = 0.0;
        r[i] = b[i];
        p[i] = b[i];
        rho += b[i] * b[i];
    }
    for (int t = 0; t < steps; t++) {
        for (int i = 0; i < n; i++) {
            q[i] = 0.0;
            for (int j = 0; j < n; j++)
                q[i] += A[i][j] * p[j];
        }
        pq = 0.0;
        for (int i = 0; i < n; i++)
            pq += p[i] * q[i];
        alpha = rho / pq;
        old = rho;
        rho = 0.0;
        for (int i = 0; i < n; i++) {
            x[i] += alpha * p[i];
            r[i] -= alpha * q[i];
            rho += r[i] * r[i];
        }
        beta = rho / old;
        for (int i = 0; i < n; i++)
            p[i] = r[i] + beta * p[i];
    }
#pragma endscop
}
