"""Accelerations of n bodies under softened gravity, and one step of symplectic Euler."""

import math


def kernel_gravity_scalars(n, dt, soft, x, y, z, vx, vy, vz, m):
    for i in range(n):
        ax = 0.0
        ay = 0.0
        az = 0.0
        for j in range(n):
            dx = x[j] - x[i]
            dy = y[j] - y[i]
            dz = z[j] - z[i]
            d2 = dx * dx + dy * dy + dz * dz + soft
            inv = m[j] / (d2 * math.sqrt(d2))
            ax += dx * inv
            ay += dy * inv
            az += dz * inv
        vx[i] += dt * ax
        vy[i] += dt * ay
        vz[i] += dt * az
    for i in range(n):
        x[i] += dt * vx[i]
        y[i] += dt * vy[i]
        z[i] += dt * vz[i]
