"""A wave function by leapfrog in Python loops."""


def kernel_schroedinger_leapfrog(steps, n, dt, re, im, V, density):
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                spread = im[i - 1, j] + im[i + 1, j] + im[i, j - 1] + im[i, j + 1] - 4.0 * im[i, j]
                re[i, j] += dt * (V[i, j] * im[i, j] - 0.5 * spread)
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                spread = re[i - 1, j] + re[i + 1, j] + re[i, j - 1] + re[i, j + 1] - 4.0 * re[i, j]
                im[i, j] -= dt * (V[i, j] * re[i, j] - 0.5 * spread)
    for i in range(n):
        for j in range(n):
            density[i, j] = re[i, j] * re[i, j] + im[i, j] * im[i, j]
