"""The field of a polygon of wire in Python loops."""

import math


def kernel_biot_savart(points, n, r, wire, B):
    for p in range(points):
        bx = 0.0
        by = 0.0
        bz = 0.0
        for s in range(n - 1):
            lx = wire[s + 1, 0] - wire[s, 0]
            ly = wire[s + 1, 1] - wire[s, 1]
            lz = wire[s + 1, 2] - wire[s, 2]
            dx = r[p, 0] - 0.5 * (wire[s, 0] + wire[s + 1, 0])
            dy = r[p, 1] - 0.5 * (wire[s, 1] + wire[s + 1, 1])
            dz = r[p, 2] - 0.5 * (wire[s, 2] + wire[s + 1, 2])
            d2 = dx * dx + dy * dy + dz * dz + 1e-4
            w = 1.0 / (d2 * math.sqrt(d2))
            bx += (ly * dz - lz * dy) * w
            by += (lz * dx - lx * dz) * w
            bz += (lx * dy - ly * dx) * w
        B[p, 0] = bx
        B[p, 1] = by
        B[p, 2] = bz
