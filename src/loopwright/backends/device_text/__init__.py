"""Text for CUDA and OpenCL: kernels and their hosts."""
