"""Facts about programs, computed on demand: dependences, legality, reductions, contractions."""
