"""Text for Athread: hosts, cores, messages."""
