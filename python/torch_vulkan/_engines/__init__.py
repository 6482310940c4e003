"""Engines: run, tuned in the background, called with fake tensors, extended by users."""
