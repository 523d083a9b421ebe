"""The wave equation with two arrays that exchange roles."""


def kernel_wave_two_levels(half, n, m, c2, p, u):
    for _ in range(half):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                p[i, j] = (
                    2 * u[i, j]
                    - p[i, j]
                    + c2 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4 * u[i, j])
                )
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                u[i, j] = (
                    2 * p[i, j]
                    - u[i, j]
                    + c2 * (p[i - 1, j] + p[i + 1, j] + p[i, j - 1] + p[i, j + 1] - 4 * p[i, j])
                )
