"""A PostgreSQL server of Debian's package, for one test: in a folder of its own, by an unprivileged
user, on the loopback."""

import glob
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

from workloads.patience import patience

# Where only the client is installed, there is no initdb.
_PROGRAMS = sorted((Path(found).parent
                    for found in glob.glob("/usr/lib/postgresql/[0-9]*/bin/initdb")),
                   key=lambda folder: float(folder.parent.name))
WHY_NOT = "" if _PROGRAMS else ("PostgreSQL's server is not installed (Debian and Ubuntu: apt "
                                "install postgresql)")
_SECONDS = patience(60)


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return made.getsockname()[1]


class PostgreSQL:
    """A server that runs while it is a context; `url` holds its password."""

    def __init__(self):
        self._folder = Path(tempfile.mkdtemp(prefix="tv-postgresql-"))
        self._data, self._port = self._folder / "data", free_port()
        self._password = secrets.token_hex(8)
        # The server refuses to be root.
        self._as = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"] if (
            os.geteuid() == 0) else []
        self._process = None

    @property
    def url(self) -> str:
        return f"postgresql://service:{self._password}@127.0.0.1:{self._port}/postgres"

    def __enter__(self) -> "PostgreSQL":
        (self._folder / "password").write_text(self._password)
        if self._as:
            for path in (self._folder, self._folder / "password"):
                shutil.chown(path, "nobody", "nogroup")
        self._run("initdb", "-D", str(self._data), "-U", "service", "--auth=scram-sha-256",
                  "--encoding=UTF8", "--locale=C", f"--pwfile={self._folder / 'password'}")
        self.start()
        return self

    def __exit__(self, *_error) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run([*self._as, f"{_PROGRAMS[-1]}/{program}", *arguments], text=True,
                              capture_output=True, timeout=_SECONDS, cwd="/", env=_environment())
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self) -> None:
        """Returns when it answers."""
        self._run("pg_ctl", "-D", str(self._data), "-l", str(self._folder / "log"), "-w", "-o",
                  f"-p {self._port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=''",
                  "start")

    def kill(self) -> None:
        """As a crash: what was not on disk is lost."""
        self._run("pg_ctl", "-D", str(self._data), "-m", "immediate", "-w", "stop")


def _environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "LC_ALL": "C"}
