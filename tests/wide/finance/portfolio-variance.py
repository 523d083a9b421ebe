"""Variances of portfolios in Python loops."""


def kernel_portfolio_variance(portfolios, n, S, w, share, variance):
    for p in range(portfolios):
        variance[p] = 0
        for i in range(n):
            share[p, i] = 0
            for j in range(n):
                share[p, i] += S[i, j] * w[p, j]
            share[p, i] *= w[p, i]
            variance[p] += share[p, i]
