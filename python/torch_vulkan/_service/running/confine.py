"""What a sandboxed task cannot do once it runs: a file run by its path inside the sandbox, with the
standard library alone.

    confine.py USER GROUP,… THREADS FOLDER COMMAND…

Becomes the user, in the groups (-1: stays who it is), begins in the folder, may have so many
threads, and can start no process, enter no namespace and use no io_uring, whose
workers no filter sees, nor memory that does not show in what it maps and has open. So what limits a
process limits the task.
"""

import ctypes
import errno
import os
import platform
import resource
import struct
import sys
from dataclasses import dataclass

_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, _PR_SET_NO_NEW_PRIVS, _PR_SET_DUMPABLE = 22, 2, 38, 4
_CLONE_FILES, _CLONE_THREAD = 0x400, 0x10000
_X32 = 0x40000000  # system calls of x86-64 from here on are those of its 32-bit form
# struct seccomp_data: the number of the call, the architecture, the first argument's lower half.
_NUMBER, _ARCHITECTURE, _FIRST = 0, 4, 16
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # classic BPF
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000


@dataclass(frozen=True)
class _Calls:
    """Numbers of system calls: refused are processes and namespaces (fork, vfork, unshare, setns),
    and what keeps memory that no process maps (socket, socketpair, shmget, msgget, semget)."""

    architecture: int  # AUDIT_ARCH_…
    clone: int
    prctl: int
    refused: tuple[int, ...]


_CALLS = {"x86_64": _Calls(0xC000003E, 56, 157, (57, 58, 272, 308, 41, 53, 29, 68, 64)),
          "aarch64": _Calls(0xC00000B7, 220, 167, (97, 268, 198, 199, 194, 186, 190))}
# One number everywhere. These are said not to exist, and the C library goes on without.
_CLONE3, _IO_URING_SETUP = 435, 425


def seccomp_filter(machine: str) -> bytes:
    """The filter as BPF instructions. Raises KeyError for a machine whose calls are not known."""
    calls, refuse = _CALLS[machine], _ERROR | errno.EPERM

    def instruction(code, value, then=0, other=0):
        return struct.pack("HBBI", code, then, other, value)

    def when(number, result):
        return [instruction(_EQUAL, number, 0, 1), instruction(_RETURN, result)]

    program = [instruction(_LOAD, _ARCHITECTURE), instruction(_EQUAL, calls.architecture, 1, 0),
               instruction(_RETURN, _KILL), instruction(_LOAD, _NUMBER)]
    program += [instruction(_AT_LEAST, _X32, 0, 1), instruction(_RETURN, refuse)]
    for number in calls.refused:
        program += when(number, refuse)
    for number in (_CLONE3, _IO_URING_SETUP):
        program += when(number, _ERROR | errno.ENOSYS)
    # A clone is a thread that shares its files, or refused.
    program += [instruction(_EQUAL, calls.clone, 0, 5), instruction(_LOAD, _FIRST),
                instruction(_ANY_BIT, _CLONE_THREAD, 0, 1),
                instruction(_ANY_BIT, _CLONE_FILES, 1, 0), instruction(_RETURN, refuse),
                instruction(_RETURN, _ALLOW)]
    # Whether others may see what it has open.
    program += [instruction(_EQUAL, calls.prctl, 0, 3), instruction(_LOAD, _FIRST),
                *when(_PR_SET_DUMPABLE, refuse), instruction(_RETURN, _ALLOW)]
    return b"".join(program)


def _apply(program: bytes) -> None:
    class Program(ctypes.Structure):  # struct sock_fprog
        _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]

    libc = ctypes.CDLL(None, use_errno=True)
    filtered = Program(len(program) // 8, program)
    if (libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            or libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(filtered), 0, 0)):
        raise OSError(ctypes.get_errno(), "no seccomp filter")


def main() -> None:
    user, threads = int(sys.argv[1]), int(sys.argv[3])
    group, *others = map(int, sys.argv[2].split(","))
    if platform.machine() not in _CALLS:
        sys.exit(f"tasks of a service on {platform.machine()} cannot be kept from processes; "
                 f"that is known of {', '.join(_CALLS)}")
    program = seccomp_filter(platform.machine())
    if user >= 0:
        os.setgroups(others)
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)
    os.chdir(sys.argv[4])
    resource.setrlimit(resource.RLIMIT_NPROC, (threads, threads))
    _apply(program)
    os.execv(sys.argv[5], sys.argv[5:])


if __name__ == "__main__":
    main()
