"""Procedures as loop nests, without isl: loops for array statements, in source order."""
