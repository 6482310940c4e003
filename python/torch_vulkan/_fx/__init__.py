"""Captured FX graphs: prepared, imported, split, and called as engines."""
