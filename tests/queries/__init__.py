"""Every query file, run alone on a fixture, against the rows that it should return."""
