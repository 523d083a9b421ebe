"""Plans for grids of threads: blocks, staging, tiles of products."""
