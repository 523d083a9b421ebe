"""Executors: dense statements composed with the map of a sparse format, as compiled loops."""
