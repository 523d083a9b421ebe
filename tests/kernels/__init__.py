"""The corpus of C kernels: 30 in the shapes of PolyBench/C and 15 that break compilers."""
