"""The report of what compiling would do."""
