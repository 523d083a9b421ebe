"""The loops of the inversion, as `lw.jit` takes them: fields, the derivative, products with it.

The derivative of the field at (u, v) by the surface at (i, j) is

    J = -scale z / s^1.5,  s = (x_u - x_i)^2 + (y_v - y_j)^2 + z^2.

A division and a square root of doubles bound `assemble`, which is the formula as it is printed. The
others multiply by s ** -1.5, which Loopwright compiles to products only, with the same digits.
"""

import loopwright as lw

__all__ = [
    "assemble",
    "assemble_mirrored",
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
    """J[u, v, i, j] without a division."""
    for u in range(z.shape[0]):
        for v in range(z.shape[1]):
            for i in range(z.shape[0]):
                for j in range(z.shape[1]):
                    J[u, v, i, j] = (
                        -scale
                        * z[i, j]
                        * ((x[u] - x[i]) ** 2 + z[i, j] ** 2 + (y[v] - y[j]) ** 2) ** -1.5
                    )


@lw.jit
def assemble_mirrored(x, y, z, scale, J):
    """J[u, v, i, j] where all x are equally far apart: rows i - d and i + d have the same r."""
    for i in range(z.shape[0]):
        for d in range(z.shape[0]):
            for v in range(z.shape[1]):
                for j in range(z.shape[1]):
                    value = (
                        -scale
                        * z[i, j]
                        * ((x[d] - x[0]) ** 2 + z[i, j] ** 2 + (y[v] - y[j]) ** 2) ** -1.5
                    )
                    if d <= i:
                        J[i - d, v, i, j] = value
                    if d < z.shape[0] - i:
                        J[i + d, v, i, j] = value


@lw.jit(reassoc=True)
def attraction(x, y, z, scale, out):
    """out[u, v] = scale sum_ij 1 / sqrt(s): the field plus that of the flat surface."""
    for u in range(z.shape[0]):
        for v in range(z.shape[1]):
            out[u, v] = 0.0
            for i in range(z.shape[0]):
                for j in range(z.shape[1]):
                    s = (x[u] - x[i]) ** 2 + (y[v] - y[j]) ** 2 + z[i, j] ** 2
                    # s ** -0.5 in fewer instructions: it has no zeros and infinities to mind.
                    out[u, v] += scale * (s * s**-1.5)


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
                    w[u, v] += -scale * z[i, j] * s**-1.5 * p[i, j]


@lw.jit(reassoc=True)
def transposed(x, y, z, scale, w, q):
    """q = J^T w without J."""
    for i in range(z.shape[0]):
        for j in range(z.shape[1]):
            q[i, j] = 0.0
            for u in range(z.shape[0]):
                for v in range(z.shape[1]):
                    s = (x[u] - x[i]) ** 2 + (y[v] - y[j]) ** 2 + z[i, j] ** 2
                    q[i, j] += -scale * z[i, j] * s**-1.5 * w[u, v]
