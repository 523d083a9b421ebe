/* 2-D Burgers, upwind: the direction of the wind is chosen by data. */
static double upwind(double u, double left, double mid, double right)
{
    if (u > 0.0) {
        return u * (mid - left);
    } else if (u < 0.0) {
        return u * (right - mid);
    }
    return 0.0;
}

static inline double laplace(const double *restrict up, const double *mid, const double *down, int j)
{
    return up[j] + down[j] + mid[j - 1] + mid[j + 1] - 4.0 * mid[j];
}

void burgers(int n, int m, double k, double nu, double u[n][m], double v[n][m])
{
#pragma scop
    for (int i = 1; i < n - 1; i++)
        for (int j = 1; j < m - 1; j++)
            v[i][j] = u[i][j] - k * upwind(u[i][j], u[i][j - 1], u[i][j], u[i][j + 1])
                - k * upwind(u[i][j], u[i - 1][j], u[i][j], u[i + 1][j])
                + nu * laplace(u[i - 1], u[i], u[i + 1], j);
#pragma endscop
}
