"""Plans of single contractions: models, blocks, orders, choices for a call."""
