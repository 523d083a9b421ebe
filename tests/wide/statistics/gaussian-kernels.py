"""The symmetric matrix of Gaussian kernels of all pairs of points, with a ridge on its diagonal."""

import math


def kernel_gaussian_kernels(n, d, gamma, ridge, x, K):
    for i in range(n):
        for j in range(i):
            s = 0.0
            for f in range(d):
                diff = x[i, f] - x[j, f]
                s += diff * diff
            K[i, j] = math.exp(-gamma * s)
            K[j, i] = K[i, j]
        K[i, i] = 1.0 + ridge
