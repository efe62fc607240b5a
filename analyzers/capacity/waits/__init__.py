"""Tool waits: whether a context's blocks are kept, moved to the host or dropped while its session waits for a tool."""
