"""Grains in a box: springs and dashpots where two overlap, friction turns them, walls push."""

import numpy as np


def kernel_granular_contacts(
    n, steps, box, stiff, damp, dt, x, y, vx, vy, spin, rad, fx, fy, torque, touching
):
    zero = np.float32(0.0)
    mu = np.float32(0.25)
    for _ in range(steps):
        for i in range(n):
            fx[i] = 0.0
            fy[i] = -1.0
            torque[i] = 0.0
            touching[i] = 0
            for j in range(n):
                dx = x[i] - x[j]
                dy = y[i] - y[j]
                reach = rad[i] + rad[j]
                d2 = dx * dx + dy * dy
                if j != i and d2 < reach * reach and d2 > zero:
                    d = np.sqrt(d2)
                    nx = dx / d
                    ny = dy / d
                    vn = (vx[i] - vx[j]) * nx + (vy[i] - vy[j]) * ny
                    vt = (vy[i] - vy[j]) * nx - (vx[i] - vx[j]) * ny
                    vt = vt - rad[i] * spin[i] - rad[j] * spin[j]
                    push = max(stiff * (reach - d) - damp * vn, zero)
                    rub = -mu * push if vt > zero else mu * push
                    fx[i] += push * nx - rub * ny
                    fy[i] += push * ny + rub * nx
                    torque[i] -= rad[i] * rub
                    touching[i] += 1
            if x[i] < rad[i]:
                fx[i] += stiff * (rad[i] - x[i])
            elif x[i] > box - rad[i]:
                fx[i] -= stiff * (x[i] - box + rad[i])
            if y[i] < rad[i]:
                fy[i] += stiff * (rad[i] - y[i])
        for i in range(n):
            vx[i] += dt * fx[i]
            vy[i] += dt * fy[i]
            spin[i] += dt * torque[i]
            x[i] += dt * vx[i]
            y[i] += dt * vy[i]
