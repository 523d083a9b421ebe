/* Variance of many portfolios, and how much of it each asset gives: w_i (S w)_i. */
#ifndef EXTENT_portfolios
#define EXTENT_portfolios 500
#endif
#ifndef EXTENT_n
#define EXTENT_n 400
#endif
#include "kernel.h"

void kernel_portfolio_variance(int portfolios, int n, DATA MATRIX(S, n, n),
                               DATA MATRIX(w, portfolios, n), DATA MATRIX(share, portfolios, n),
                               DATA VECTOR(variance, portfolios))
{
    int p, i, j;

#pragma scop
    for (p = 0; p < BOUND(portfolios); p++) {
        variance[p] = 0;
        for (i = 0; i < BOUND(n); i++) {
            share[p][i] = 0;
            for (j = 0; j < BOUND(n); j++)
                share[p][i] += S[i][j] * w[p][j];
            share[p][i] *= w[p][i];
            variance[p] += share[p][i];
        }
    }
#pragma endscop
}
