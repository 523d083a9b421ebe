/* Crank and Nicolson for many strikes: the matrix is one, every column of V is a system. */
void kernel_crank_nicolson_strikes(int steps, int n, int strikes, double lo[n], double di[n],
                                   double hi[n], double cp[n], double V[n][strikes],
                                   double R[n][strikes])
{
    int t, i, k;

#pragma scop
    cp[1] = -hi[1] / (1.0 - di[1]);
    for (i = 2; i < n - 1; i++)
        cp[i] = -hi[i] / (1.0 - di[i] + lo[i] * cp[i - 1]);
    for (t = 0; t < steps; t++)
        for (k = 0; k < strikes; k++) {
            for (i = 1; i < n - 1; i++)
                R[i][k] = lo[i] * V[i - 1][k] + (1.0 + di[i]) * V[i][k] + hi[i] * V[i + 1][k];
            R[1][k] += lo[1] * V[0][k];
            R[n - 2][k] += hi[n - 2] * V[n - 1][k];
            R[1][k] /= 1.0 - di[1];
            for (i = 2; i < n - 1; i++)
                R[i][k] = (R[i][k] + lo[i] * R[i - 1][k]) / (1.0 - di[i] + lo[i] * cp[i - 1]);
            V[n - 2][k] = R[n - 2][k];
            for (i = n - 3; i >= 1; i--)
                V[i][k] = R[i][k] - cp[i] * V[i + 1][k];
        }
#pragma endscop
}
