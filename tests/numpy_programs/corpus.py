"""All programs of this folder by name."""

from __future__ import annotations

from numpy_programs import (
    automata,
    chemistry,
    graphs,
    images,
    life_and_society,
    motion,
    signals,
    statistics_of_samples,
)
from numpy_programs.program import SIZES, Program

__all__ = ["PROGRAMS", "SIZES"]

FIELDS = (
    signals, statistics_of_samples, images, life_and_society, chemistry, graphs, motion, automata,
)  # fmt: skip
PROGRAMS: dict[str, Program] = {
    program.name: program for field in FIELDS for program in field.PROGRAMS
}
