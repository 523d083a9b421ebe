"""Unnormalised autocorrelation up to a largest lag, then a window on the lags."""


def kernel_autocorrelation(n, lags, x, window, r):
    for lag in range(lags):
        s = 0.0
        for i in range(n - lag):
            s += x[i] * x[i + lag]
        r[lag] = s
    for lag in range(lags):
        r[lag] *= window[lag]
