"""Whole NumPy functions by `jit` beside NumPy and numba."""
