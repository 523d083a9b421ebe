"""Front ends: einsum expressions, Python functions and C regions to a Program."""
