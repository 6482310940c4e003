"""Programs compiled before their first call: capture, signature, files."""
