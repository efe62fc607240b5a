"""What must not change a verdict, and what must."""
