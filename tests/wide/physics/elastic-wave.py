"""Elastic waves on staggered grids in Python loops."""


def kernel_elastic_wave(steps, nx, nz, vx, vz, sxx, szz, sxz, buoyancy, lam, mu):
    for _ in range(steps):
        for i in range(1, nx - 1):
            for j in range(1, nz - 1):
                vx[i, j] += buoyancy[i, j] * (sxx[i, j] - sxx[i - 1, j] + sxz[i, j] - sxz[i, j - 1])
                vz[i, j] += buoyancy[i, j] * (sxz[i + 1, j] - sxz[i, j] + szz[i, j + 1] - szz[i, j])
        for i in range(1, nx - 1):
            for j in range(1, nz - 1):
                ex = vx[i + 1, j] - vx[i, j]
                ez = vz[i, j] - vz[i, j - 1]
                sxx[i, j] += (lam[i, j] + 2 * mu[i, j]) * ex + lam[i, j] * ez
                szz[i, j] += lam[i, j] * ex + (lam[i, j] + 2 * mu[i, j]) * ez
                sxz[i, j] += mu[i, j] * (vx[i, j + 1] - vx[i, j] + vz[i, j] - vz[i - 1, j])
