"""Many workers' recordings: where they lie, how they are judged one hour at a time, and what the findings are kept as."""
