"""Covariances of m variables whose n samples are rows: the lower triangle, then mirrored."""


def kernel_sample_covariance(n, m, count, x, mean, cov):
    for j in range(m):
        mean[j] = 0.0
    for i in range(n):
        for j in range(m):
            mean[j] += x[i, j] / count
    for j in range(m):
        for k in range(j + 1):
            cov[j, k] = 0.0
    for i in range(n):
        for j in range(m):
            for k in range(j + 1):
                cov[j, k] += (x[i, j] - mean[j]) * (x[i, k] - mean[k])
    for j in range(m):
        for k in range(j + 1):
            cov[j, k] /= count - 1.0
            cov[k, j] = cov[j, k]
