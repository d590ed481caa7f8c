"""Score text and write text."""
