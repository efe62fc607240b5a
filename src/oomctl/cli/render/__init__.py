"""Pure functions from a verdict, or from rows, to text. Nothing here prints, reads a file or asks for the time."""
