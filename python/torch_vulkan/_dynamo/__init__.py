"""What torch.compile calls."""
