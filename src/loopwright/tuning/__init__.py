"""Tuning: how to run a program is chosen by construction, search or a learned policy."""
