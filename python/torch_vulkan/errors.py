"""Errors that reach the user, with the class that says who has to act."""

from ._native import C

UnsupportedError = C.UnsupportedError
DeviceError = C.DeviceError
