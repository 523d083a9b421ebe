"""Text in C and its dialects."""
