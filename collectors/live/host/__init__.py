"""The host's side of a worker: its processes, their memory cgroups, and how they end."""
