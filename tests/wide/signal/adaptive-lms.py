"""Least mean squares: filters that follow the unknown systems between x and d."""


def kernel_adaptive_lms(channels, n, taps, mu, x, d, w, e):
    for c in range(channels):
        for i in range(taps - 1, n):
            y = 0.0
            for k in range(taps):
                y += w[c, k] * x[c, i - k]
            e[c, i] = d[c, i] - y
            for k in range(taps):
                w[c, k] += mu * e[c, i] * x[c, i - k]
