"""Programs: compiled ahead of time or built by hand, saved, refitted, timed, or only described."""
