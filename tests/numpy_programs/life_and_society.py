"""Epidemics, ecology, finance: populations and prices in time."""

import numpy as np

from numpy_programs.program import Program


def epidemic(susceptible, infected, mobility, rate, recovery, days):
    """People in regions who travel: infections follow a matrix of contacts."""
    recovered = np.zeros_like(infected)
    history = np.empty((days, len(infected)))
    population = susceptible + infected
    for day in range(days):
        pressure = rate * (mobility @ (infected / population))
        new = np.minimum(pressure * susceptible, susceptible)
        healed = recovery * infected
        susceptible -= new
        infected += new - healed
        recovered += healed
        history[day] = infected
    return history, recovered


def lotka_volterra(prey, predators, step, count):
    def change(x, y):
        return 1.1 * x - 0.4 * x * y, 0.1 * x * y - 0.4 * y

    path = np.empty((count + 1, 2))
    path[0] = prey, predators
    for k in range(count):
        x, y = path[k]
        dx1, dy1 = change(x, y)
        dx2, dy2 = change(x + step * dx1 / 2, y + step * dy1 / 2)
        path[k + 1, 0] = x + step * dx2
        path[k + 1, 1] = y + step * dy2
    return path


def american_put(spot, strike, up, rate, steps):
    """A tree of prices, walked back: hold, or sell now."""
    down = 1.0 / up
    chance = (1.0 + rate - down) / (up - down)
    prices = spot * up ** (2.0 * np.arange(steps + 1) - steps)
    value = np.maximum(strike - prices, 0.0)
    for _ in range(steps):
        prices = prices[1:] * down
        hold = (chance * value[1:] + (1 - chance) * value[:-1]) / (1.0 + rate)
        value = np.maximum(hold, strike - prices)
    return value[0]


def drawdowns(prices):
    """For each asset, the deepest fall from a peak, and when it ended."""
    peak = prices[0].copy()
    deepest = np.zeros(prices.shape[1])
    day = np.zeros(prices.shape[1], dtype=np.int32)
    for t in range(1, len(prices)):
        peak = np.maximum(peak, prices[t])
        fall = 1.0 - prices[t] / peak
        worse = fall > deepest
        deepest[worse] = fall[worse]
        day[worse] = t
    return deepest, day


def _regions(n, random):
    mobility = random.random((n, n))
    mobility /= mobility.sum(axis=1)[:, None]
    return 1000 * random.random(n) + 100, random.random(n), mobility, 0.3, 0.1, 30


PROGRAMS = (
    Program(epidemic, _regions, (12, 200, 2000), ulps=64),
    Program(lotka_volterra, lambda n, r: (10.0, 5.0, 0.01, n), (30, 10**4, 10**6)),
    Program(american_put, lambda n, r: (100.0, 105.0, 1.01, 1e-4, n), (25, 1000, 6000), ulps=64),
    Program(
        drawdowns,
        lambda n, r: (100 + r.normal(size=(n, 6)).cumsum(axis=0) * 0.5,),
        (40, 10**4, 3 * 10**5),
    ),
)
