"""A = L D L' in Python loops."""


def kernel_ldlt(n, A, d, v):
    for j in range(n):
        for k in range(j):
            v[k] = A[j, k] * d[k]
        total = A[j, j]
        for k in range(j):
            total -= A[j, k] * v[k]
        d[j] = total
        for i in range(j + 1, n):
            total = A[i, j]
            for k in range(j):
                total -= A[i, k] * v[k]
            A[i, j] = total / d[j]
