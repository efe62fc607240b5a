"""Which workers run on this node: engines, their processes, ranks, containers, devices, ports and rings, by /proc alone."""
