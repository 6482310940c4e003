"""Quantised weights: their forms, the modules that hold them, checkpoints that have them."""
