"""Errors that reach the user; the class says who can act on it."""

from ._native import C

UnsupportedError = C.UnsupportedError
DeviceError = C.DeviceError
