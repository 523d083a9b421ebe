"""Every row to mean 0 and variance 1, then scaled and shifted."""

import numpy as np


def kernel_layer_norm(rows, n, x, gain, shift, y):
    for r in range(rows):
        mean = np.float32(0)
        var = np.float32(0)
        for i in range(n):
            mean += x[r, i]
        mean /= np.float32(n)
        for i in range(n):
            d = x[r, i] - mean
            var += d * d
        inv = np.float32(1) / np.sqrt(var / np.float32(n) + np.float32(0.001))
        for i in range(n):
            y[r, i] = gain[i] * ((x[r, i] - mean) * inv) + shift[i]
