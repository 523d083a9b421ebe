"""What users call: einsum and compiled functions. Arguments in, kernels run, results out."""
