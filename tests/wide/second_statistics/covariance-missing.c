/* Covariances of all pairs of variables over the rows in which both were observed. */
#include <stdint.h>

void kernel_covariance_missing(int rows, int vars, double x[rows][vars], uint8_t missing[rows][vars],
                               int pairs[vars][vars], double cov[vars][vars])
{
#pragma scop
    for (int a = 0; a < vars; a++) {
        for (int b = a; b < vars; b++) {
            double sa = 0.0, sb = 0.0, sab = 0.0;
            int count = 0;
            for (int i = 0; i < rows; i++) {
                if (!missing[i][a] && !missing[i][b]) {
                    sa += x[i][a];
                    sb += x[i][b];
                    sab += x[i][a] * x[i][b];
                    count++;
                }
            }
            pairs[a][b] = count;
            pairs[b][a] = count;
            if (count > 1)
                cov[a][b] = (sab - sa * sb / count) / (count - 1);
            else
                cov[a][b] = 0.0;
            cov[b][a] = cov[a][b];
        }
    }
#pragma endscop
}
