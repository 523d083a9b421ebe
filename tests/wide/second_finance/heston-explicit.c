/* An American put under stochastic variance: explicit steps in price and variance, early exercise. */
#ifndef EXTENT_ns
#define EXTENT_ns 300
#endif
#ifndef EXTENT_nv
#define EXTENT_nv 200
#endif
#define NS EXTENT_ns
#define NV EXTENT_nv
#define max(a, b) (((a) > (b)) ? (a) : (b))

void kernel_heston_explicit(int steps, int ns, int nv, double dt, double r, double kappa, double theta,
                            double xi, double rho, double u[NV][NS], double old[NV][NS],
                            double payoff[NS])
{
    const double dv = 1.0 / (NV - 1);
    const double strike = 0.5 * NS;
#pragma scop
    for (int j = 0; j < ns; j++)
        payoff[j] = max(strike - j, 0.0);
    for (int i = 0; i < nv; i++)
        for (int j = 0; j < ns; j++)
            u[i][j] = payoff[j];
    for (int t = 0; t < steps; t++) {
        for (int i = 0; i < nv; i++)
            for (int j = 0; j < ns; j++)
                old[i][j] = u[i][j];
        for (int i = 1; i < nv - 1; i++) {
            double v = i * dv;
            for (int j = 1; j < ns - 1; j++) {
                double ss = old[i][j + 1] - 2.0 * old[i][j] + old[i][j - 1];
                double vv = (old[i + 1][j] - 2.0 * old[i][j] + old[i - 1][j]) / (dv * dv);
                double sv = (old[i + 1][j + 1] - old[i + 1][j - 1] - old[i - 1][j + 1]
                             + old[i - 1][j - 1]) / (4.0 * dv);
                double ds = 0.5 * (old[i][j + 1] - old[i][j - 1]);
                double du = (old[i + 1][j] - old[i - 1][j]) / (2.0 * dv);
                double value = old[i][j] + dt * (0.5 * v * j * j * ss + 0.5 * xi * xi * v * vv
                                                 + rho * xi * v * j * sv + r * j * ds
                                                 + kappa * (theta - v) * du - r * old[i][j]);
                u[i][j] = max(value, payoff[j]);
            }
        }
        for (int j = 1; j < ns - 1; j++) {
            u[0][j] = max(old[0][j] + dt * (r * j * (old[0][j + 1] - old[0][j])
                                            + kappa * theta * (old[1][j] - old[0][j]) / dv
                                            - r * old[0][j]), payoff[j]);
            u[nv - 1][j] = u[nv - 2][j];
        }
        for (int i = 0; i < nv; i++) {
            u[i][0] = payoff[0];
            u[i][ns - 1] = 0.0;
        }
    }
#pragma endscop
}
