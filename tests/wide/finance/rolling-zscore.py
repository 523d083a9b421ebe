"""Rolling scores in Python loops."""

import math

WINDOW = 20


def kernel_rolling_zscore(series, days, x, z):
    for s in range(series):
        for t in range(WINDOW - 1):
            z[s, t] = 0.0
        for t in range(WINDOW - 1, days):
            mean = 0.0
            square = 0.0
            for k in range(WINDOW):
                mean += x[s, t - k]
            mean /= WINDOW
            for k in range(WINDOW):
                square += (x[s, t - k] - mean) * (x[s, t - k] - mean)
            z[s, t] = (x[s, t] - mean) / math.sqrt(square / (WINDOW - 1) + 1e-9)
