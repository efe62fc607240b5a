"""oomctl: record, explain and prevent GPU out-of-memory failures of LLM inference workers."""

__version__ = "0.1.0"
