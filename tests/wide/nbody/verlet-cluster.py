"""A cluster held together by springs between all its atoms, for many steps of velocity Verlet."""


def kernel_verlet_cluster(steps, n, dt, stiff, x, y, vx, vy, fx, fy):
    for _ in range(steps):
        for i in range(n):
            vx[i] += 0.5 * dt * fx[i]
            vy[i] += 0.5 * dt * fy[i]
            x[i] += dt * vx[i]
            y[i] += dt * vy[i]
        for i in range(n):
            fx[i] = 0
            fy[i] = 0
            for j in range(n):
                dx = x[j] - x[i]
                dy = y[j] - y[i]
                r2 = dx * dx + dy * dy
                pull = stiff * (r2 - 1.0) / (r2 + 1.0) / (r2 + 1.0)
                fx[i] += pull * dx
                fy[i] += pull * dy
        for i in range(n):
            vx[i] += 0.5 * dt * fx[i]
            vy[i] += 0.5 * dt * fy[i]
