"""Where tasks run, within which limits, and what they do there."""
