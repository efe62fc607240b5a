"""The allocator's forensics: state, holders, history, and why an allocation did not fit."""
