"""Exponential smoothing with a trend: level, slope and squared errors of many series."""


def kernel_trend_smoothing(times, series, alpha, beta, y, level, slope, error):
    for s in range(series):
        level[s] = y[0, s]
        slope[s] = y[1, s] - y[0, s]
        error[s] = 0
    for s in range(series):
        for t in range(1, times):
            guess = level[s] + slope[s]
            error[s] += (y[t, s] - guess) * (y[t, s] - guess)
            before = level[s]
            level[s] = alpha * y[t, s] + (1 - alpha) * guess
            slope[s] = beta * (level[s] - before) + (1 - beta) * slope[s]
