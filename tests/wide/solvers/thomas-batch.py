"""Many tridiagonal systems in Python loops."""


def kernel_thomas_batch(systems, n, lower, diagonal, upper, rhs, c):
    for s in range(systems):
        c[s, 0] = upper[s, 0] / diagonal[s, 0]
        rhs[s, 0] = rhs[s, 0] / diagonal[s, 0]
        for i in range(1, n):
            w = 1.0 / (diagonal[s, i] - lower[s, i] * c[s, i - 1])
            c[s, i] = upper[s, i] * w
            rhs[s, i] = (rhs[s, i] - lower[s, i] * rhs[s, i - 1]) * w
        for i in range(n - 2, -1, -1):
            rhs[s, i] -= c[s, i] * rhs[s, i + 1]
