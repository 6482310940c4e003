"""Random numbers as functions of a key and a counter, in operators that compile: Philox4x32-10
(Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011)."""

import torch

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_WORD = 0xFFFFFFFF
_ROUNDS = 10


def words(counter: tuple, key: tuple) -> tuple:
    """Four words of 32 random bits. All are int64 tensors, which broadcast, or numbers below 2^32:
    the four of `counter`, the two of `key`, and the results."""
    a, b, c, d = counter
    low, high = key
    for i in range(_ROUNDS):
        if i:
            low, high = (low + _WEYL[0]) & _WORD, (high + _WEYL[1]) & _WORD
        # A product of two words may be a negative int64; its bits are the same.
        first, second = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
        a, b, c, d = ((second >> 32) & _WORD) ^ b ^ low, second & _WORD, (
            (first >> 32) & _WORD) ^ d ^ high, first & _WORD
    return a, b, c, d


def exponential(words: torch.Tensor) -> torch.Tensor:
    """Words as draws of the exponential distribution of rate 1, float32, all above 0."""
    uniform = (words.float() + 0.5) * 2.0 ** -32
    return -torch.log1p(-uniform)
