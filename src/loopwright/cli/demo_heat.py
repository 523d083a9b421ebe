"""The Python loops of `loopwright demo`, as a user writes them: without types."""

# mypy: allow-untyped-defs
# fmt: off

import loopwright as lw

__all__ = ["heat"]


@lw.jit
def heat(u, v, steps):
    for _ in range(steps):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                v[i, j] = (u[i-1, j] + u[i+1, j] + u[i, j-1] + u[i, j+1]) / 4
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                u[i, j] = v[i, j]
