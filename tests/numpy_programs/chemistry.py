"""Chemistry and materials: reactions, particles, lattices."""

import numpy as np

from numpy_programs.program import Program


def laplacian(field):
    around = np.roll(field, 1, axis=0) + np.roll(field, -1, axis=0)
    around += np.roll(field, 1, axis=1) + np.roll(field, -1, axis=1)
    return around - 4 * field


def gray_scott(u, v, feed, kill, steps):
    for _ in range(steps):
        reaction = u * v * v
        u += 0.16 * laplacian(u) - reaction + feed * (1 - u)
        v += 0.08 * laplacian(v) + reaction - (feed + kill) * v
    return u.min(), v.max()


def lennard_jones(position, box):
    """Forces and energy in a periodic box."""
    offset = position[:, None, :] - position[None, :, :]
    offset -= box * np.round(offset / box)
    square = (offset**2).sum(axis=-1)
    n = len(position)
    square[np.arange(n), np.arange(n)] = np.inf
    inverse = 1.0 / (square * square * square)
    inverse[square > 6.25] = 0.0
    energy = 2.0 * (inverse * (inverse - 1.0)).sum()
    strength = 24.0 * inverse * (2.0 * inverse - 1.0) / square
    return (strength[:, :, None] * offset).sum(axis=1), energy


def titration(volumes, acid, base, constant):
    """The pH of a weak acid at each volume of base, by bisection."""
    found = np.empty_like(volumes)
    for k, volume in enumerate(volumes):
        sodium = base * volume / (50.0 + volume)
        total = acid * 50.0 / (50.0 + volume)
        low, high = 0.0, 14.0
        while high - low > 1e-9:
            middle = (low + high) / 2
            proton = 10.0**-middle
            charge = proton + sodium - 1e-14 / proton - total * constant / (constant + proton)
            if charge > 0:
                low = middle
            else:
                high = middle
        found[k] = low
    return found


def spin_sweeps(spins, draws, coupling):
    """Metropolis sweeps over a ring of spins with given random numbers."""
    n = spins.size
    accepted = 0
    for sweep in draws:
        for i in range(n):
            cost = 2 * coupling * spins[i] * (spins[i - 1] + spins[(i + 1) % n])
            if cost <= 0 or sweep[i] < 1.0 / (1.0 + cost):
                spins[i] = -spins[i]
                accepted += 1
    return accepted / draws.size, spins.mean()


def _reactor(n, random):
    u, v = np.ones((n, n)), np.zeros((n, n))
    v[n // 3 : n // 2, n // 3 : n // 2] = 0.5 + 0.1 * random.random()
    return u, v, 0.035, 0.065, 10


PROGRAMS = (
    Program(gray_scott, _reactor, (16, 256, 2048)),
    Program(lennard_jones, lambda n, r: (6.0 * r.random((n, 3)), 6.0), (12, 400, 2000)),
    Program(
        titration,
        lambda n, r: (np.linspace(1.0, 99.0, n), 0.1, 0.1, 1.8e-5),
        (10, 1000, 10**5),
        ulps=10**8,  # bisection stops within 1e-9
    ),
    Program(
        spin_sweeps,
        lambda n, r: (np.where(r.random(n) < 0.5, 1, -1), r.random((5, n)), 0.7),
        (20, 10**4, 10**6),
    ),
)
