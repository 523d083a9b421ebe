"""A finite impulse response filter over a long signal."""


def kernel_fir_filter(n, taps, x, h, y):
    for i in range(taps - 1, n):
        y[i] = 0
        for k in range(taps):
            y[i] += h[k] * x[i - k]
