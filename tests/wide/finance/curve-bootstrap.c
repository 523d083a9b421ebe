/* Discount factors from par rates of swaps, and the forward rates, for every day of a history. */
#ifndef EXTENT_days
#define EXTENT_days 40000
#endif
#ifndef EXTENT_tenors
#define EXTENT_tenors 60
#endif
#include "kernel.h"

void kernel_curve_bootstrap(int days, int tenors, DATA VECTOR(tau, tenors),
                            DATA MATRIX(par, days, tenors), DATA MATRIX(df, days, tenors),
                            DATA MATRIX(forward, days, tenors))
{
    int d, k, j;

#pragma scop
    for (d = 0; d < BOUND(days); d++) {
        for (k = 0; k < BOUND(tenors); k++) {
            DATA annuity = 0;
            for (j = 0; j < k; j++)
                annuity += tau[j] * df[d][j];
            df[d][k] = (1 - par[d][k] * annuity) / (1 + par[d][k] * tau[k]);
        }
        forward[d][0] = (1 / df[d][0] - 1) / tau[0];
        for (k = 1; k < BOUND(tenors); k++)
            forward[d][k] = (df[d][k - 1] / df[d][k] - 1) / tau[k];
    }
#pragma endscop
}
