"""Front ends: programs as people write them to Program."""
