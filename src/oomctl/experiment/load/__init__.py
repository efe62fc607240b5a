"""What is sent to the worker: the calls, planned ahead (`calls`), and the one adapter of what sends them (`aiperf`)."""
