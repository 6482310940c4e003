"""With PyTorch 2.11 two guards together say that a matrix is square."""


