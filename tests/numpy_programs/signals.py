"""Signal processing: filters, wavelets, envelopes, onsets."""

import numpy as np

from numpy_programs.program import Program


def fir_filter(signal, taps):
    out = np.zeros(len(signal) - len(taps) + 1)
    for k in range(len(taps)):
        out += taps[len(taps) - 1 - k] * signal[k : k + len(out)]
    return out


def haar_transform(signal):
    coefficients = signal.copy()
    n = len(signal)
    while n > 1:
        half = n // 2
        even = coefficients[0:n:2].copy()
        odd = coefficients[1:n:2].copy()
        coefficients[:half] = (even + odd) / np.sqrt(2.0)
        coefficients[half:n] = (even - odd) / np.sqrt(2.0)
        n = half
    return coefficients


def envelope(signal, attack, release):
    """Peak follower with another time constant up than down."""
    level = 0.0
    out = np.empty_like(signal)
    for i, x in enumerate(np.abs(signal)):
        if x > level:
            level = attack * level + (1 - attack) * x
        else:
            level = release * level + (1 - release) * x
        out[i] = level
    return out


def biquad_cascade(signal, sections):
    y = signal
    for b0, b1, b2, a1, a2 in sections:
        x = y
        y = np.zeros_like(x)
        x1 = x2 = y1 = y2 = 0.0
        for n in range(len(x)):
            y[n] = b0 * x[n] + b1 * x1 + b2 * x2 - a1 * y1 - a2 * y2
            x2, x1 = x1, x[n]
            y2, y1 = y1, y[n]
    return y


def _sections(count, random):
    sections = 0.1 * random.normal(size=(count, 5))
    sections[:, 0] += 1.0
    return sections


PROGRAMS = (
    Program(fir_filter, lambda n, r: (r.normal(size=n), r.normal(size=17)), (60, 10**5, 10**7)),
    Program(haar_transform, lambda n, r: (r.normal(size=2**n),), (6, 16, 22)),
    Program(envelope, lambda n, r: (r.normal(size=n), 0.2, 0.95), (50, 10**5, 10**7)),
    Program(
        biquad_cascade,
        lambda n, r: (r.normal(size=n), _sections(4, r)),
        (40, 10**5, 3 * 10**6),
    ),
)
