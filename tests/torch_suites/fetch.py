"""torch's own tests, from Debian's source package of pytorch: fetched at run time into a cache."""

import os
import subprocess
import tarfile
from pathlib import Path

SUITE = "trixie"  # has pytorch 2.6
MIRROR = Path(__file__).parents[2] / "scripts/apt_mirror.sh"  # prints apt's
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"


def cache() -> Path:
    """Where the tests are kept."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(os.environ.get("TV_TORCH_TESTS") or f"{home}/torch_vulkan_torch_tests")


def tests() -> Path:
    """torch's folder `test`; downloads 27 MB the first time.

    Raises:
        RuntimeError: there is no apt-get, or no network.
    """
    directory = cache()
    found = sorted(directory.glob("*/test"))
    if not found:
        directory.mkdir(parents=True, exist_ok=True)
        _download(directory)
        (archive,) = directory.glob("pytorch_*.orig.tar.*")
        with tarfile.open(archive) as tar:
            wanted = [m for m in tar.getmembers() if m.name.count("/") <= 3
                      and m.name.split("/")[1:2] == ["test"] and m.name.endswith(".py")]
            tar.extractall(directory, wanted, filter="data")
        found = sorted(directory.glob("*/test"))
    return found[0]


def _download(directory: Path) -> None:
    """apt-get source with lists of its own: nothing of the system's is changed."""
    for name in ("state/lists/partial", "cache/archives/partial"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    sources = directory / "sources.list"
    mirror = subprocess.run([MIRROR], capture_output=True, text=True)
    if mirror.returncode:
        raise RuntimeError(f"torch's tests cannot be fetched: {mirror.stderr.strip()}")
    sources.write_text(f"deb-src [signed-by={KEYS}] {mirror.stdout.strip()} {SUITE} main\n")
    options = [f"-oDir::State={directory}/state", f"-oDir::Cache={directory}/cache",
               f"-oDir::Etc::sourcelist={sources}", "-oDir::Etc::sourceparts=-"]
    for command in (["update"], ["source", "--download-only", "pytorch"]):
        try:
            subprocess.run(["apt-get", *options, *command], cwd=directory, check=True,
                           capture_output=True, text=True, timeout=600)
        except (OSError, subprocess.SubprocessError) as error:
            told = getattr(error, "stderr", "") or error
            raise RuntimeError(f"torch's tests were not fetched: {told}") from error


if __name__ == "__main__":
    print(tests())
