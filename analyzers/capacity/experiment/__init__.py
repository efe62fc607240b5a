"""What follows from the figures of an experiment: what broke first, what leaks, how two of them differ."""
