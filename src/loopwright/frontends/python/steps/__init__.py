"""A function in steps: what is compiled, and calls that Python makes where they stand."""
