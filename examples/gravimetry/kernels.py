"""The loops of the inversion, as `lw.jit` takes them: fields, the derivative, products with it.

The derivative of the field at (u, v) by the surface at (i, j) is

    J = -scale z / s^1.5,  s = (x_u - x_i)^2 + (y_v - y_j)^2 + z^2.

A division and a square root of doubles bound `assemble`. `assemble_quickly` starts from
r = 1 / sqrt(s) in single precision and takes e = 1 - s r^2 into account by the series
1 / sqrt(s) = r (1 - e)^-1/2 = r (1 + e/2 + 3/8 e^2 + ...): with |e| below 2^-21 the next term is
below half a unit in the last place of a double. s has to lie in the range of single precision.
"""

import numpy as np

import loopwright as lw

__all__ = [
    "assemble",
    "assemble_quickly",
    "attraction",
    "forward",
    "normal",
    "transposed",
]


@lw.jit
def assemble(x, y, z, scale, J):
    """J[u, v, i, j], as it is written in the book."""
    for u in range(z.shape[0]):
        for v in range(z.shape[1]):
            for i in range(z.shape[0]):
                for j in range(z.shape[1]):
                    J[u, v, i, j] = (
                        -scale
                        * z[i, j]
                        / ((x[u] - x[i]) ** 2 + (y[v] - y[j]) ** 2 + z[i, j] ** 2) ** 1.5
                    )


@lw.jit
def assemble_quickly(x, y, z, scale, J):
    """J[u, v, i, j] with a reciprocal square root from single precision."""
    for u in range(z.shape[0]):
        for v in range(z.shape[1]):
            for i in range(z.shape[0]):
                for j in range(z.shape[1]):
                    s = (x[u] - x[i]) ** 2 + (y[v] - y[j]) ** 2 + z[i, j] ** 2
                    r = np.float64(np.float32(1) / np.sqrt(np.float32(s)))
                    e = 1 - s * r * r
                    r = r + r * e * (0.5 + 0.375 * e)
                    J[u, v, i, j] = -scale * z[i, j] * (r * r * r)


@lw.jit(reassoc=True)
def attraction(x, y, z, scale, out):
    """out[u, v] = scale sum_ij 1 / sqrt(s): the field plus that of the flat surface."""
    for u in range(z.shape[0]):
        for v in range(z.shape[1]):
            out[u, v] = 0.0
            for i in range(z.shape[0]):
                for j in range(z.shape[1]):
                    s = (x[u] - x[i]) ** 2 + (y[v] - y[j]) ** 2 + z[i, j] ** 2
                    r = np.float64(np.float32(1) / np.sqrt(np.float32(s)))
                    e = 1 - s * r * r
                    out[u, v] += scale * (r + r * e * (0.5 + 0.375 * e))


@lw.jit(reassoc=True)
def normal(J, p, w, q):
    """w = J p and q = J^T w in one pass over J: a row serves both while it is in cache."""
    for c in range(J.shape[1]):
        q[c] = 0.0
    for r in range(J.shape[0]):
        w[r] = 0.0
        for c in range(J.shape[1]):
            w[r] += J[r, c] * p[c]
        for c in range(J.shape[1]):
            q[c] += J[r, c] * w[r]


@lw.jit(reassoc=True)
def forward(x, y, z, scale, p, w):
    """w = J p without J: its elements are computed where they are used."""
    for u in range(z.shape[0]):
        for v in range(z.shape[1]):
            w[u, v] = 0.0
            for i in range(z.shape[0]):
                for j in range(z.shape[1]):
                    s = (x[u] - x[i]) ** 2 + (y[v] - y[j]) ** 2 + z[i, j] ** 2
                    r = np.float64(np.float32(1) / np.sqrt(np.float32(s)))
                    e = 1 - s * r * r
                    r = r + r * e * (0.5 + 0.375 * e)
                    w[u, v] += -scale * z[i, j] * (r * r * r) * p[i, j]


@lw.jit(reassoc=True)
def transposed(x, y, z, scale, w, q):
    """q = J^T w without J."""
    for i in range(z.shape[0]):
        for j in range(z.shape[1]):
            q[i, j] = 0.0
            for u in range(z.shape[0]):
                for v in range(z.shape[1]):
                    s = (x[u] - x[i]) ** 2 + (y[v] - y[j]) ** 2 + z[i, j] ** 2
                    r = np.float64(np.float32(1) / np.sqrt(np.float32(s)))
                    e = 1 - s * r * r
                    r = r + r * e * (0.5 + 0.375 * e)
                    q[i, j] += -scale * z[i, j] * (r * r * r) * w[u, v]
