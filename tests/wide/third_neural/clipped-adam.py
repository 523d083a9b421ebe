"""Steps of Adam on several tensors, gradients cut to a norm over all of them together."""

import numpy as np


def kernel_clipped_adam(steps, tensors, n, lr, limit, w, g, m, v, norm):
    for p in range(tensors):
        for i in range(n):
            m[p, i] = 0.0
            v[p, i] = 0.0
    b1 = 1.0
    b2 = 1.0
    for t in range(steps):
        squares = 0.0
        for p in range(tensors):
            for i in range(n):
                squares += np.float64(g[t, p, i]) * g[t, p, i]
        norm[t] = np.sqrt(squares)
        scale = limit / norm[t] if norm[t] > limit else np.float32(1.0)
        b1 *= 0.9
        b2 *= 0.999
        for p in range(tensors):
            for i in range(n):
                grad = scale * g[t, p, i]
                m[p, i] = np.float32(0.9) * m[p, i] + np.float32(0.1) * grad
                v[p, i] = np.float32(0.999) * v[p, i] + np.float32(0.001) * grad * grad
                step = m[p, i] / (1.0 - b1) / (np.sqrt(v[p, i] / (1.0 - b2)) + 1e-8)
                w[p, i] -= lr * (step + 0.01 * w[p, i])
