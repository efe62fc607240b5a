"""The part that runs inside the worker: the standard library only, no thread and no lock on the step path."""
