"""Phase-locked loops, one for each channel: the phase error steers the rate."""

import math


def kernel_following_loops(channels, n, gain, drift, x, phase, rate, lock, bit, flips):
    for c in range(channels):
        lock[c] = 0.0
        flips[c] = 0
    for t in range(n):
        for c in range(channels):
            i = x[t, c] * math.cos(math.tau * phase[c])
            q = -x[t, c] * math.sin(math.tau * phase[c])
            error = i * q
            rate[c] += drift * error
            phase[c] += rate[c] + gain * error
            phase[c] -= math.floor(phase[c])
            lock[c] += 0.0078125 * (i * i - q * q - lock[c])
            bit[t, c] = 1 if i > 0.0 else -1
            if t > 0 and bit[t, c] != bit[t - 1, c]:
                flips[c] += 1
