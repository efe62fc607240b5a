"""What others left behind: engine logs, allocator snapshots, dumps."""
