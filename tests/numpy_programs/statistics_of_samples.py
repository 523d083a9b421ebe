"""Statistics: densities, running moments, rank tests, sampling, clusters."""

import numpy as np

from numpy_programs.program import Program


def kernel_density(samples, grid, width):
    distance = (grid[:, np.newaxis] - samples[np.newaxis, :]) / width
    weights = np.exp(-0.5 * distance**2)
    return weights.sum(axis=1) / (len(samples) * width * np.sqrt(2 * np.pi))


def running_moments(values):
    """Welford's mean and variance behind each value."""
    mean, scatter = 0.0, 0.0
    means = np.empty(len(values))
    variances = np.zeros(len(values))
    for k in range(len(values)):
        delta = values[k] - mean
        mean += delta / (k + 1)
        scatter += delta * (values[k] - mean)
        means[k] = mean
        if k > 0:
            variances[k] = scatter / k
    return means, variances


def standardised(table):
    """Columns without their mean and scale; constant columns stay zero."""
    centred = table - table.mean(axis=0)
    scale = np.sqrt((centred**2).sum(axis=0) / (len(table) - 1))
    scale[scale == 0.0] = 1.0
    return centred / scale, scale


def kmeans(points, centres, most):
    labels = np.zeros(len(points), dtype=np.int64)
    for _ in range(most):
        offsets = points[:, None, :] - centres[None, :, :]
        distances = (offsets * offsets).sum(axis=2)
        found = distances.argmin(axis=1)
        if np.all(found == labels):
            break
        labels = found
        for k in range(len(centres)):
            members = labels == k
            if members.any():
                centres[k] = points[members].mean(axis=0)
    return labels, centres


def mann_whitney(left, right):
    below = left[:, None] < right[None, :]
    equal = left[:, None] == right[None, :]
    u = below.sum() + 0.5 * equal.sum()
    centre = len(left) * len(right) / 2
    return u, u - centre


def _blobs(n, random):
    centres = random.normal(size=(4, 3)) * 5
    points = centres[random.integers(0, 4, n)] + random.normal(size=(n, 3))
    return points, points[:4].copy(), 20


PROGRAMS = (
    Program(
        kernel_density,
        lambda n, r: (r.normal(size=n), np.linspace(-3.0, 3.0, n // 2), 0.3),
        (30, 2000, 8000),
        ulps=8,
    ),
    Program(running_moments, lambda n, r: (r.normal(size=n),), (40, 10**5, 10**7)),
    Program(standardised, lambda n, r: (r.normal(size=(n, 7)),), (20, 10**5, 10**6)),
    Program(kmeans, _blobs, (30, 10**4, 10**6)),
    Program(
        mann_whitney,
        lambda n, r: (r.integers(0, 50, n), r.integers(10, 60, n + 3)),
        (20, 2000, 8000),
    ),
)
