"""The present state of workers, kept up to date row by row: what `oomctl top` draws, live or from a recording."""
