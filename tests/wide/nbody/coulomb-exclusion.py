"""Coulomb energy of the charges of chain molecules, without neighbours up to three bonds away."""

import math


def kernel_coulomb_exclusion(n, pos, q, phi):
    for i in range(n):
        phi[i] = 0
        for j in range(i - 3):
            dx = pos[i, 0] - pos[j, 0]
            dy = pos[i, 1] - pos[j, 1]
            dz = pos[i, 2] - pos[j, 2]
            phi[i] += q[j] / math.sqrt(dx * dx + dy * dy + dz * dz)
        for j in range(i + 4, n):
            dx = pos[i, 0] - pos[j, 0]
            dy = pos[i, 1] - pos[j, 1]
            dz = pos[i, 2] - pos[j, 2]
            phi[i] += q[j] / math.sqrt(dx * dx + dy * dy + dz * dz)
