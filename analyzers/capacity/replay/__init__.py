"""What a pool of KV blocks would have done with a trace: a discrete-event model, and the report of it."""
