"""Loopwright as a backend of networkx: `nx.config.backend_priority = ["loopwright"]`."""
