"""Tiles in time, diagonals of tables, strips, blocked closures."""
