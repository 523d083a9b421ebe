/* GARCH(1,1) variances of many assets and the Gaussian likelihood of their returns. */
#include <math.h>

void kernel_garch_likelihood(int assets, int days, double omega[restrict assets],
                             double alpha[restrict assets], double beta[restrict assets],
                             double r[restrict days][assets], double h[restrict days][assets],
                             double like[restrict assets])
{
#pragma scop
    for (int a = 0; a < assets; a++) {
        like[a] = 0.0;
        h[0][a] = omega[a] / (1.0 - alpha[a] - beta[a]);
        for (int t = 1; t < days; t++) {
            h[t][a] = omega[a] + alpha[a] * r[t - 1][a] * r[t - 1][a] + beta[a] * h[t - 1][a];
            like[a] -= 0.5 * (log(h[t][a]) + r[t][a] * r[t][a] / h[t][a]);
        }
    }
#pragma endscop
}
