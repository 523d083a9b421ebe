"""Nests for meshes of cores: boxes in scratchpads, registers of a core."""
