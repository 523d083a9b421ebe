"""Procedures as loop nests, without isl: one loop nest per array statement, in source order."""
