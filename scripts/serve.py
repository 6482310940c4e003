"""Starts Triton on the example's repository (`make serve`), on ports 8000 (HTTP), 8001 (gRPC) and
8002 (metrics) of 127.0.0.1, until it is interrupted. --check: sends requests and ends."""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from workloads import triton_process  # noqa: E402

EXAMPLE = ROOT / "examples" / "serving"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if missing := triton_process.what_is_missing():
        sys.exit(missing)
    subprocess.run([sys.executable, EXAMPLE / "make_model.py"], check=True)
    ports = None if options.check else (8000, 8001, 8002)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "server.log"
        with triton_process.Server(EXAMPLE / "repository", log, ports=ports) as server:
            client = [triton_process.ENVIRONMENT / "bin" / "python", EXAMPLE / "client.py",
                      f"127.0.0.1:{server.http}"]
            if options.check:
                subprocess.run(client, check=True, timeout=300)
                return
            print(f"Serving on http://127.0.0.1:{server.http}, gRPC {server.grpc}, metrics "
                  f"{server.metrics}; Ctrl-C ends it. Requests:", *client, flush=True)
            try:
                server.process.wait()
            except KeyboardInterrupt:
                print("ending")
                return
        sys.exit(log.read_text()[-4000:])


if __name__ == "__main__":
    main()
