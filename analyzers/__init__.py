"""Conclusions out: pure functions from a DuckDB connection over the event table to findings."""
