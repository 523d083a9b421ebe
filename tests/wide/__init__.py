"""The wide corpus: programs as people bring them, in families, a third of each set aside."""
