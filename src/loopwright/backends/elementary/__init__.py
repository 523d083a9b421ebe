"""Elementary functions as straight-line arithmetic, for every backend."""
