"""Fourier transforms against eager: lengths around each form of the kernels, both ways."""

import pytest
import torch

from parity import check, check_gradients, tensor

# One element, each radix, mixed ones, sums of larger primes, convolutions for the rest.
LENGTHS = [1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 60, 1001, 17, 34, 61 * 4, 67, 2 * 127, 1009, 2048]


def pairs(*shape, seed=0):
    return torch.complex(tensor(*shape, seed=seed), tensor(*shape, seed=seed + 1))


@pytest.mark.parametrize("n", LENGTHS)
def test_lengths(n):
    def function(x, z):
        return torch.fft.fft(z), torch.fft.ifft(z), torch.fft.rfft(x), torch.fft.irfft(z, n=n)
    check(function, tensor(3, n), pairs(3, n), length=4 * n)


@pytest.mark.parametrize("norm", ["forward", "backward", "ortho"])
def test_norms_and_paddings(norm):
    def function(x, z):
        return (torch.fft.fft(x, norm=norm), torch.fft.fft(z, n=7, norm=norm), torch.fft.ifft(z, n=16, norm=norm),
                torch.fft.rfft2(x, norm=norm), torch.fft.irfft2(z, norm=norm), torch.fft.fft2(z, s=(4, 9), norm=norm),
                torch.fft.hfft(z, norm=norm), torch.fft.ihfft(x, norm=norm), torch.fft.rfft(x, n=24, norm=norm))
    check(function, tensor(5, 11), pairs(5, 11), length=64)


def test_dimensions_and_views():
    def function(x, z):
        return (torch.fft.fft(z, dim=0), torch.fft.rfft(x.transpose(0, 2), dim=1), torch.fft.fftn(z),
                torch.fft.ifft2(z[:, ::2], dim=(0, 1)), torch.fft.irfftn(z, dim=(2, 0)),
                torch.fft.fftshift(torch.fft.fft(z)), torch.fft.ihfft2(x), torch.fft.hfft2(z.conj()))
    check(function, tensor(5, 6, 7), pairs(5, 6, 7), length=210)
    check(lambda x: torch.fft.rfft(x[:, None].expand(3, 2, 8)), tensor(3, 8), length=8)


def test_dynamic_sizes():
    check(lambda x: torch.fft.irfft(torch.fft.rfft(x, dim=1), n=24, dim=1) * 2, tensor(2, 24, 3), length=48,
          more=[(tensor(5, 24, 3),), (tensor(7, 24, 4),)], dynamic=True)
    check(lambda x: torch.fft.rfft(x), tensor(3, 24), length=48, more=[(tensor(3, 35),), (tensor(2, 67),)], dynamic=True)


def test_gradients():
    def function(x, re, im):
        z = torch.complex(re, im)
        return (torch.fft.fft(x).abs(), torch.fft.irfft(z), torch.fft.rfft2(x).real, torch.fft.ifft(z).imag,
                torch.fft.hfft(z))
    check_gradients(function, tensor(4, 10), tensor(4, 10, seed=1), tensor(4, 10, seed=2), length=80)


def test_short_time_transforms():
    window = torch.hann_window(16)
    check(lambda x, w: torch.stft(x, 16, 4, window=w, return_complex=True), tensor(2, 100), window, length=64)
    check(lambda x, w: torch.istft(torch.stft(x, 16, 4, window=w, return_complex=True), 16, 4, window=w),
          tensor(2, 100), window, length=256)
