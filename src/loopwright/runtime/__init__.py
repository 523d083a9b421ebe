"""Modules to callables: code in memory, cache, threads, arguments."""
