"""The front end for whole NumPy functions: a function and types of arguments to a Procedure."""
