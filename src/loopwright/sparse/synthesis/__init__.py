"""The synthesis of conversions: from two descriptors to the loops that make one from the other."""
