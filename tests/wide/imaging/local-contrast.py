"""Every pixel less the mean of its 7x7 window, over the window's spread."""

import math


def kernel_local_contrast(n, m, least, picture, out):
    for i in range(n):
        for j in range(m):
            out[i, j] = 0
    for i in range(3, n - 3):
        for j in range(3, m - 3):
            s = 0.0
            q = 0.0
            for a in range(i - 3, i + 4):
                for b in range(j - 3, j + 4):
                    s += picture[a, b]
                    q += picture[a, b] * picture[a, b]
            mean = s / 49.0
            var = q / 49.0 - mean * mean
            out[i, j] = (picture[i, j] - mean) / math.sqrt(max(var, least)) if var > least else 0.0
