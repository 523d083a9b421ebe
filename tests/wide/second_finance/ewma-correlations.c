/* Exponentially weighted covariances of returns, days without a quote (below -2) left out,
   and the correlations at the end. */
#include <math.h>

#define LAMBDA 0.94
#define NO_QUOTE (-2.0)

void kernel_ewma_correlations(int days, int assets, double ret[days][assets],
                              double cov[assets][assets], double vol[assets],
                              double corr[assets][assets])
{
#pragma scop
    for (int d = 0; d < days; d++) {
        for (int a = 0; a < assets; a++) {
            if (ret[d][a] > NO_QUOTE) {
                for (int b = 0; b <= a; b++) {
                    if (ret[d][b] > NO_QUOTE)
                        cov[a][b] = LAMBDA * cov[a][b] + (1.0 - LAMBDA) * ret[d][a] * ret[d][b];
                }
            }
        }
    }
    for (int a = 0; a < assets; a++)
        vol[a] = sqrt(fabs(cov[a][a]) + 1e-12);
    for (int a = 0; a < assets; a++) {
        for (int b = 0; b < a; b++) {
            corr[a][b] = cov[a][b] / (vol[a] * vol[b]);
            corr[b][a] = corr[a][b];
        }
        corr[a][a] = 1.0;
    }
#pragma endscop
}
