"""Prices: what a schedule is expected to take, and its parts."""
