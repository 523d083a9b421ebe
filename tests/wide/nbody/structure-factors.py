"""Reciprocal part of an Ewald sum: cosine and sine sums of the charges for every wave vector."""

import math


def kernel_structure_factors(waves, n, k, pos, q, re, im, power):
    for w in range(waves):
        re[w] = 0.0
        im[w] = 0.0
        for i in range(n):
            phase = k[w, 0] * pos[i, 0] + k[w, 1] * pos[i, 1] + k[w, 2] * pos[i, 2]
            re[w] += q[i] * math.cos(phase)
            im[w] += q[i] * math.sin(phase)
        power[w] = (re[w] * re[w] + im[w] * im[w]) / (
            k[w, 0] * k[w, 0] + k[w, 1] * k[w, 1] + k[w, 2] * k[w, 2]
        )
