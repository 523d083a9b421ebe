"""Attraction of electrons in contracted s functions to the nuclei."""

import math


def kernel_nuclear_attraction(shells, prims, atoms, centre, alpha, coef, nucleus, charge, V):
    for a in range(shells):
        for b in range(a + 1):
            total = 0.0
            ab2 = 0.0
            for d in range(3):
                ab2 += (centre[a, d] - centre[b, d]) ** 2
            for p in range(prims):
                for q in range(prims):
                    gamma = alpha[a, p] + alpha[b, q]
                    px = (alpha[a, p] * centre[a, 0] + alpha[b, q] * centre[b, 0]) / gamma
                    py = (alpha[a, p] * centre[a, 1] + alpha[b, q] * centre[b, 1]) / gamma
                    pz = (alpha[a, p] * centre[a, 2] + alpha[b, q] * centre[b, 2]) / gamma
                    scale = coef[a, p] * coef[b, q] * 2.0 * math.pi / gamma
                    scale *= math.exp(-alpha[a, p] * alpha[b, q] / gamma * ab2)
                    for c in range(atoms):
                        dx = px - nucleus[c, 0]
                        dy = py - nucleus[c, 1]
                        dz = pz - nucleus[c, 2]
                        t = gamma * (dx * dx + dy * dy + dz * dz)
                        if t < 1e-8:
                            f0 = 1.0 - t / 3.0
                        else:
                            f0 = 0.5 * math.sqrt(math.pi / t) * math.erf(math.sqrt(t))
                        total -= charge[c] * scale * f0
            V[a, b] = total
            V[b, a] = total
