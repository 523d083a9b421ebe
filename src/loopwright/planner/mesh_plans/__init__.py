"""Plans for meshes of cores with scratchpads."""
