"""A log says the same whatever pipeline it came through."""
