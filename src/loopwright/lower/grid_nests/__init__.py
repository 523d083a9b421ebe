"""Nests for grids of threads."""
