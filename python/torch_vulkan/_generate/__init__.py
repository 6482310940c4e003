"""Text of decoders."""
