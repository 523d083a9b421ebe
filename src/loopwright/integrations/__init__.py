"""Loopwright inside other systems; nothing of the package itself imports these."""
