"""Facts in: everything here turns something observed into rows of the event table."""
