"""Derivatives on spectral elements in Python loops."""

Q = 6


def kernel_spectral_element(elements, D, u, g, w):
    for e in range(elements):
        for i in range(Q):
            for j in range(Q):
                for k in range(Q):
                    ur = 0.0
                    us = 0.0
                    ut = 0.0
                    for m in range(Q):
                        ur += D[i, m] * u[e, m, j, k]
                        us += D[j, m] * u[e, i, m, k]
                        ut += D[k, m] * u[e, i, j, m]
                    w[e, i, j, k] = g[e, 0] * ur + g[e, 1] * us + g[e, 2] * ut
