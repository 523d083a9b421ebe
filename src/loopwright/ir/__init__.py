"""The nouns: immutable values that the stages of the compiler hand to each other."""
