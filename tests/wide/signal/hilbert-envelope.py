"""Envelope of a signal: a Hilbert transformer of odd taps, and a leaky mean of the lengths."""

import math


def kernel_hilbert_envelope(n, leak, x, h, q, env):
    for i in range(31):
        env[i] = 0.0
    for i in range(31, n - 31):
        q[i] = 0.0
        for k in range(1, 32, 2):
            q[i] += h[k] * (x[i - k] - x[i + k])
    for i in range(31, n - 31):
        env[i] = leak * env[i - 1] + (1.0 - leak) * math.sqrt(x[i] * x[i] + q[i] * q[i])
