"""Devices: which there are, and memory that they share with CUDA."""
