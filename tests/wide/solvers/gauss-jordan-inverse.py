"""The inverse of a matrix in Python loops."""


def kernel_gauss_jordan_inverse(n, A):
    for k in range(n):
        pivot = 1.0 / A[k, k]
        A[k, k] = 1.0
        for j in range(n):
            A[k, j] *= pivot
        for i in range(n):
            if i != k:
                factor = A[i, k]
                A[i, k] = 0.0
                for j in range(n):
                    A[i, j] -= factor * A[k, j]
