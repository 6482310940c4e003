"""Errors of the service, and the packages that it needs."""

import importlib


class ServiceError(Exception):
    """What the service refused, or why it cannot be reached.

    Attributes:
        status: the HTTP status; 0: there was no answer.
        code: a word for programs: "not_found", "conflict", "unreachable", …
        details: lines that say more, for people.
        headers: of the answer, those that matter, such as Retry-After.
    """

    __module__ = "torch_vulkan.service"  # as users know it

    def __init__(self, status: int, code: str, message: str, details=(), headers=None):
        super().__init__("\n  ".join([message, *details]))
        self.status, self.code, self.message = status, code, message
        self.details, self.headers = list(details), headers


class Away(ConnectionError):
    """A part of the service that is elsewhere cannot be reached. Nothing is lost: ask again.

    Attributes:
        what: "store", "database" or "cluster".
    """

    def __init__(self, what: str, why: str):
        super().__init__(f"the {what} cannot be used: {why}")
        self.what = what


class Damaged(Exception):
    """A file in the store has other contents than its digest says. Asking again does not help;
    uploading it again does."""

    def __init__(self, digest: str):
        super().__init__(f"the file {digest} is damaged in the store")


def package(name: str, extra: str = "service"):
    """A package of an extra of ours. Raises ImportError, saying what to install."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if not f"{name}.".startswith(f"{error.name}."):
            raise
        raise ImportError(f"the compile service needs the package {error.name}: install "
                          f"torch-vulkan[{extra}]") from None
