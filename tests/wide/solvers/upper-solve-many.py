"""Back substitution with many right-hand sides in Python loops."""


def kernel_upper_solve_many(n, m, U, B):
    for i in range(n - 1, -1, -1):
        for c in range(m):
            x = B[i, c]
            for k in range(i + 1, n):
                x -= U[i, k] * B[k, c]
            B[i, c] = x / U[i, i]
