"""What can be collected on this node, by whoever asks: one probe per source, each with what it would need."""
