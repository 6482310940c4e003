"""Files that models are sent in, read with the standard library alone."""
