/* Many tridiagonal systems, one per row: elimination forwards, substitution backwards. */
void kernel_thomas_batch(int systems, int n, const double lower[systems][n],
                         const double diagonal[systems][n], const double upper[systems][n],
                         double rhs[systems][n], double c[systems][n])
{
    int s, i;

#pragma scop
    for (s = 0; s < systems; s++) {
        c[s][0] = upper[s][0] / diagonal[s][0];
        rhs[s][0] = rhs[s][0] / diagonal[s][0];
        for (i = 1; i < n; i++) {
            double w = 1.0 / (diagonal[s][i] - lower[s][i] * c[s][i - 1]);
            c[s][i] = upper[s][i] * w;
            rhs[s][i] = (rhs[s][i] - lower[s][i] * rhs[s][i - 1]) * w;
        }
        for (i = n - 2; i >= 0; i--)
            rhs[s][i] -= c[s][i] * rhs[s][i + 1];
    }
#pragma endscop
}
