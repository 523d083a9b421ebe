"""Measurements of Loopwright beside its peers: `python -m benchmarks [name ...]`."""
