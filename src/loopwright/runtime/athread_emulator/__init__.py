"""Athread programs of Sunway on the processor at hand: built, instrumented, run, checked."""
