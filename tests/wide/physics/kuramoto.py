"""Coupled oscillators in Python loops."""

import math


def kernel_kuramoto(steps, n, coupling, dt, omega, theta, rate):
    for _ in range(steps):
        for i in range(n):
            pull = 0.0
            for j in range(n):
                pull += math.sin(theta[j] - theta[i])
            rate[i] = omega[i] + coupling / n * pull
        for i in range(n):
            theta[i] += dt * rate[i]
