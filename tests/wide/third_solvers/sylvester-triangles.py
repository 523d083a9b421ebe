"""A X + X B = C where A and B are upper triangles; and the largest residual."""


def kernel_sylvester_triangles(n, m, A, B, C, X, resid):
    worst = 0.0
    for i in range(n - 1, -1, -1):
        for j in range(m):
            total = C[i, j]
            for k in range(i + 1, n):
                total -= A[i, k] * X[k, j]
            for k in range(j):
                total -= X[i, k] * B[k, j]
            X[i, j] = total / (A[i, i] + B[j, j])
    for i in range(n):
        for j in range(m):
            left = -C[i, j]
            for k in range(i, n):
                left += A[i, k] * X[k, j]
            for k in range(j + 1):
                left += X[i, k] * B[k, j]
            worst = max(worst, abs(left))
    resid[0] = worst
