"""Contractions as nests: panels, tiles, launches."""
