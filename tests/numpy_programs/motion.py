"""Robotics and astronomy: poses, filters, orbits, fluids."""

import numpy as np

from numpy_programs.program import Program


def arm_positions(angles, lengths):
    """Joints of planar arms, one arm in a row of angles."""
    heading = np.cumsum(angles, axis=1)
    steps = np.stack((lengths * np.cos(heading), lengths * np.sin(heading)), axis=-1)
    joints = np.zeros((len(angles), len(lengths) + 1, 2))
    joints[:, 1:] = np.cumsum(steps, axis=1)
    reach = np.sqrt((joints[:, -1] ** 2).sum(axis=1))
    return joints, reach


def kalman_track(measured, step, noise):
    """Position and speed from noisy positions."""
    move = np.array([[1.0, step], [0.0, 1.0]])
    state = np.array([measured[0], 0.0])
    spread = np.eye(2)
    track = np.empty((len(measured), 2))
    for k, z in enumerate(measured):
        state = move @ state
        spread = move @ spread @ move.T + 0.01 * np.eye(2)
        gain = spread[:, 0] / (spread[0, 0] + noise)
        state = state + gain * (z - state[0])
        spread = spread - np.outer(gain, spread[0])
        track[k] = state
    return track


def warped_distance(left, right, window):
    """Dynamic time warping within a band."""
    n, m = len(left), len(right)
    cost = np.full((n + 1, m + 1), np.inf)
    cost[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(max(1, i - window), min(m, i + window) + 1):
            step = abs(left[i - 1] - right[j - 1])
            cost[i, j] = step + min(cost[i - 1, j], cost[i, j - 1], cost[i - 1, j - 1])
    return cost[n, m]


def kepler(mean_anomaly, eccentricity):
    """Eccentric anomaly by Newton's method for all bodies at once."""
    e = mean_anomaly + eccentricity * np.sin(mean_anomaly)
    for _ in range(50):
        error = e - eccentricity * np.sin(e) - mean_anomaly
        e -= error / (1.0 - eccentricity * np.cos(e))
        if np.max(np.abs(error)) < 1e-12:
            break
    return e


def leapfrog(position, velocity, mass, step, count):
    def pull(where):
        offset = where[np.newaxis] - where[:, np.newaxis]
        cube = ((offset * offset).sum(axis=2) + 0.01) ** 1.5
        return (mass[np.newaxis, :, np.newaxis] * offset / cube[:, :, np.newaxis]).sum(axis=1)

    force = pull(position)
    for _ in range(count):
        velocity += 0.5 * step * force
        position += step * velocity
        force = pull(position)
        velocity += 0.5 * step * force
    return 0.5 * (mass * (velocity**2).sum(axis=1)).sum()


def lattice_boltzmann(density, steps, relaxation):
    """Flow on a square lattice with nine directions (D2Q9)."""
    directions = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))
    weights = (4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 36, 1 / 36)
    for _ in range(steps):
        for k in range(9):
            dx, dy = directions[k]
            density[k] = np.roll(np.roll(density[k], dx, axis=0), dy, axis=1)
        rho = density.sum(axis=0)
        ux = (density[1] + density[5] + density[8] - density[3] - density[6] - density[7]) / rho
        uy = (density[2] + density[5] + density[6] - density[4] - density[7] - density[8]) / rho
        square = ux * ux + uy * uy
        for k in range(9):
            dx, dy = directions[k]
            along = dx * ux + dy * uy
            equal = weights[k] * rho * (1 + 3 * along + 4.5 * along * along - 1.5 * square)
            density[k] -= relaxation * (density[k] - equal)
    return rho


PROGRAMS = (
    Program(
        arm_positions,
        lambda n, r: (r.normal(size=(n, 5)), np.linspace(1.0, 0.2, 5)),
        (12, 10**4, 10**6),
        ulps=16,
    ),
    Program(
        kalman_track,
        lambda n, r: (r.normal(size=n).cumsum(), 0.1, 0.5),
        (20, 2000, 10**5),
        ulps=64,
    ),
    Program(
        warped_distance,
        lambda n, r: (r.normal(size=n), r.normal(size=n + 3), 6),
        (20, 1000, 5000),
    ),
    Program(
        kepler,
        lambda n, r: (r.random(n) * 6.2, 0.9 * r.random(n)),
        (25, 10**4, 10**6),
        ulps=64,
    ),
    Program(
        leapfrog,
        lambda n, r: (r.normal(size=(n, 3)), r.normal(size=(n, 3)), r.random(n), 0.01, 5),
        (8, 100, 600),
        ulps=10**4,
    ),
    Program(
        lattice_boltzmann,
        lambda n, r: (1.0 + 0.01 * r.random((9, n, n + 2)), 4, 0.6),
        (12, 150, 800),
    ),
)
