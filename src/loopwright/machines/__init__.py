"""Processors as data: machines by name, the host, and what was measured on it."""

from loopwright.machines.host import host
from loopwright.machines.load import load_machine, machine_names

__all__ = ["host", "load_machine", "machine_names"]
