"""Triage: each class and each cause found where it is, and not where it only looks so."""
