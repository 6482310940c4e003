"""What needs neither a graph nor a capture: files, amounts, checks."""
