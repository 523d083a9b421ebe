"""Structural inverse gravimetry: the interface between two layers from the field above them.

Run it with `python -m examples.gravimetry` from the repository's root; docs/gravimetry.md has the
equations, what each command shows and what was measured.
"""
