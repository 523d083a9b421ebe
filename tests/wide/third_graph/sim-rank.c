/* SimRank: two places are alike when those that point to them are. */
#include <math.h>

void kernel_sim_rank(int rounds, int n, double decay, unsigned char adj[n][n], double w[n][n],
                     double s[n][n], double half[n][n], double moved[rounds])
{
    int i, j, k, t;

#pragma scop
    for (j = 0; j < n; j++) {
        int in = 0;
        for (i = 0; i < n; i++)
            in += adj[i][j];
        for (i = 0; i < n; i++)
            w[i][j] = in > 0 ? (double)adj[i][j] / in : 0.0;
    }
    for (i = 0; i < n; i++)
        for (j = 0; j < n; j++)
            s[i][j] = i == j ? 1.0 : 0.0;

    for (t = 0; t < rounds; t++) {
        double change = 0.0;
        for (i = 0; i < n; i++)
            for (j = 0; j < n; j++) {
                half[i][j] = 0.0;
                for (k = 0; k < n; k++)
                    half[i][j] += s[i][k] * w[k][j];
            }
        for (i = 0; i < n; i++)
            for (j = 0; j < i; j++) {
                double sum = 0.0;
                for (k = 0; k < n; k++)
                    sum += w[k][i] * half[k][j];
                sum *= decay;
                if (fabs(sum - s[i][j]) > change)
                    change = fabs(sum - s[i][j]);
                s[i][j] = sum;
            }
        for (i = 0; i < n; i++)
            for (j = i + 1; j < n; j++)
                s[i][j] = s[j][i];
        moved[t] = change;
    }
#pragma endscop
}
