"""Advection by a wind that changes sign."""


def kernel_upwind(steps, n, dt, q, next, u, v):
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                dx = q[i, j] - q[i - 1, j] if u[i, j] > 0 else q[i + 1, j] - q[i, j]
                dy = q[i, j] - q[i, j - 1] if v[i, j] > 0 else q[i, j + 1] - q[i, j]
                next[i, j] = q[i, j] - dt * (u[i, j] * dx + v[i, j] * dy)
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                q[i, j] = next[i, j]
