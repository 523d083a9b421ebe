"""Decisions: which steps and sizes suit a program on a machine."""
