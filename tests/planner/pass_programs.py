"""Passes over planes that plans for threads are tried on."""

from __future__ import annotations

__all__ = ["PASSES"]

# Fluxes with scalars, which one thread takes in waves; fields of n x n.
PASSES = """
void f(int steps, float c, float q[{n}][{n}], float next[{n}][{n}], float u[{n}][{n}]) {{
#pragma scop
  for (int t = 0; t < steps; t++) {{
    for (int i = 1; i < {n} - 1; i++)
      for (int j = 1; j < {n} - 1; j++) {{
        float up = u[i][j] > 0.0f ? q[i][j] - q[i - 1][j] : q[i + 1][j] - q[i][j];
        next[i][j] = q[i][j] - c * u[i][j] * up;
      }}
    for (int i = 1; i < {n} - 1; i++)
      for (int j = 1; j < {n} - 1; j++)
        q[i][j] = next[i][j];
  }}
#pragma endscop
}}
"""
