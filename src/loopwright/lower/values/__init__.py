"""How the values of a nest are computed and where they are kept."""
