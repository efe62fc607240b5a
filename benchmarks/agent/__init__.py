"""What the agent costs an engine: `make bench-agent`. Everything here runs in the engine's Python."""
