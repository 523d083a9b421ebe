"""Plans of affine programs for processors: order, lanes, waves, threads."""
