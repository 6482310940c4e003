"""What PyTorch does of its own, and where its versions differ; nothing here knows the compiler."""
