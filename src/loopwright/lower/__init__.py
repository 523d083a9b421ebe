"""Schedule -> LoopNest: the loops, bounds and statement bodies that backends print and run."""
