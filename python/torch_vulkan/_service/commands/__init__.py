"""tv-compile."""
