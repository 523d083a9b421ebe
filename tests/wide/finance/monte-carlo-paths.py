"""Paths of a geometric motion in Python loops."""

import math


def kernel_monte_carlo_paths(paths, steps, spot, strike, drift, vol, z, moments):
    total = 0.0
    squares = 0.0
    for p in range(paths):
        s = spot
        for t in range(steps):
            s *= math.exp(drift + vol * z[p, t])
        payoff = s - strike if s > strike else 0.0
        total += payoff
        squares += payoff * payoff
    moments[0] = total / paths
    moments[1] = squares / paths
