"""Logistic regression by steps along the gradient, with weight decay."""

import math


def kernel_logistic_descent(epochs, n, d, rate, decay, X, y, w, grad):
    for _ in range(epochs):
        for j in range(d):
            grad[j] = decay * w[j]
        for i in range(n):
            z = 0.0
            for j in range(d):
                z += X[i, j] * w[j]
            err = 1.0 / (1.0 + math.exp(-z)) - y[i]
            for j in range(d):
                grad[j] += err * X[i, j]
        for j in range(d):
            w[j] -= rate * grad[j]
