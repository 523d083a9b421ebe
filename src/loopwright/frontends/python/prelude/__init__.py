"""Functions of NumPy written in the language that `jit` accepts, read like a user's helpers.

They are plain Python, and right as such. What a function may do that a helper may not: call itself
with arrays of lower rank. Strings, dtypes, ranks and axes are known when it is read.
"""
