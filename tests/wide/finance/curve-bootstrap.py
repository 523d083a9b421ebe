"""Discount factors and forward rates in Python loops."""


def kernel_curve_bootstrap(days, tenors, tau, par, df, forward):
    for d in range(days):
        for k in range(tenors):
            annuity = 0.0
            for j in range(k):
                annuity += tau[j] * df[d, j]
            df[d, k] = (1.0 - par[d, k] * annuity) / (1.0 + par[d, k] * tau[k])
        forward[d, 0] = (1.0 / df[d, 0] - 1.0) / tau[0]
        for k in range(1, tenors):
            forward[d, k] = (df[d, k - 1] / df[d, k] - 1.0) / tau[k]
