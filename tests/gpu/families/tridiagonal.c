/* Many tridiagonal systems by Thomas: forward, then backward. */
void tridiagonal(int b, int n, double lower[b][n], double diag[b][n], double upper[b][n],
                 double x[b][n])
{
    double factor;
#pragma scop
    for (int s = 0; s < b; s++) {
        for (int i = 1; i < n; i++) {
            factor = lower[s][i] / (diag[s][i - 1] + 4.0);
            diag[s][i] = diag[s][i] - factor * upper[s][i - 1];
            x[s][i] = x[s][i] - factor * x[s][i - 1];
        }
        for (int i = 1; i <= n; i++)
            if (i > 1)
                x[s][n - i] = (x[s][n - i] - upper[s][n - i] * x[s][n - i + 1]) /
                              (diag[s][n - i] + 4.0);
    }
#pragma endscop
}
