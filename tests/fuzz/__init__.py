"""Every reader against bytes that nobody meant: `make fuzz`; a short, fixed part of it runs with the tests."""
