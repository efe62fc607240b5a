"""The vocabulary of oomctl: the event table, the verdict and the errors, each declared once."""
