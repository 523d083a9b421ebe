"""An ensemble of shock tubes: Euler's equations by fluxes of Harten, Lax and van Leer."""

import math


def kernel_hll_shock_tubes(tubes, cells, steps, lam, rho, mom, ene, f1, f2, f3, fastest):
    smax = 0.0
    smin = 0.0
    for b in range(tubes):
        for _ in range(steps):
            for i in range(1, cells):
                ul = mom[b, i - 1] / rho[b, i - 1]
                ur = mom[b, i] / rho[b, i]
                pl = 0.4 * (ene[b, i - 1] - 0.5 * mom[b, i - 1] * ul)
                pr = 0.4 * (ene[b, i] - 0.5 * mom[b, i] * ur)
                cl = math.sqrt(1.4 * abs(pl) / rho[b, i - 1])
                cr = math.sqrt(1.4 * abs(pr) / rho[b, i])
                sl = min(ul - cl, ur - cr)
                sr = max(ul + cl, ur + cr)
                smax = max(smax, sr)
                smin = min(smin, sl)
                sl = min(sl, 0.0)
                sr = max(sr, 0.0)
                w = 1.0 / (sr - sl)
                f1[i] = w * (
                    sr * mom[b, i - 1] - sl * mom[b, i] + sl * sr * (rho[b, i] - rho[b, i - 1])
                )
                f2[i] = w * (
                    sr * (mom[b, i - 1] * ul + pl)
                    - sl * (mom[b, i] * ur + pr)
                    + sl * sr * (mom[b, i] - mom[b, i - 1])
                )
                f3[i] = w * (
                    sr * (ene[b, i - 1] + pl) * ul
                    - sl * (ene[b, i] + pr) * ur
                    + sl * sr * (ene[b, i] - ene[b, i - 1])
                )
            for i in range(1, cells - 1):
                rho[b, i] -= lam * (f1[i + 1] - f1[i])
                mom[b, i] -= lam * (f2[i + 1] - f2[i])
                ene[b, i] -= lam * (f3[i + 1] - f3[i])
    fastest[0] = smin
    fastest[1] = smax
