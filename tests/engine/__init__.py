"""A real vLLM on the CPU, a tiny model, and what the agent records of them. `make test-engine` runs these."""
