"""TorchScript modules."""
