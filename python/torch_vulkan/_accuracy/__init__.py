"""What engines compute beside what PyTorch does: calibrated, compared, validated."""
