"""Conclusions about many workers: which incidents are the same, and what a fleet's findings have in common."""
