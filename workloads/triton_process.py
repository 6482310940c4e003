"""A Triton server of a repository of models, on the loopback, and what is said to it: for tests,
benchmarks and examples. The protocol is that of KServe, version 2, with binary tensors."""

import contextlib
import http.client
import json
import os
import socket
import subprocess
import time
from pathlib import Path

import numpy

from workloads.patience import patience

ROOT = Path(__file__).parents[1]
ENVIRONMENT = ROOT / ".setup" / "triton"
BACKENDS = ROOT / "build" / "backends"
START_SECONDS = patience(120)
TYPES = {"FP32": "float32", "FP16": "float16", "FP64": "float64", "INT64": "int64",
         "INT32": "int32", "INT16": "int16", "INT8": "int8", "UINT8": "uint8", "BOOL": "bool"}
NAMES = {numpy.dtype(dtype): name for name, dtype in TYPES.items()}


class Refused(Exception):
    """What the server answers to a request that is wrong."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


def server_program() -> Path | None:
    """The server's program; None where scripts/triton_fixture.sh has not made its environment."""
    found = [*ENVIRONMENT.glob("lib/python3*/site-packages/pytriton/tritonserver/bin/tritonserver")]
    return found[0] if found else None


def what_is_missing() -> str:
    """Why nothing can be served here; "": nothing is missing."""
    if not (BACKENDS / "vulkan" / "libtriton_vulkan.so").is_file():
        return "the backend is not built (cmake -DTV_TRITON=ON)"
    return "" if server_program() else "no Triton server (scripts/triton_fixture.sh)"


def free_ports(count):
    """Ports of the loopback that nobody has."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class Client:
    """One connection. Not for several threads."""

    def __init__(self, port, seconds=120):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)

    def close(self):
        self.connection.close()

    def ask(self, method, path, body=None, headers=None):
        """The answer's headers and bytes. Raises Refused."""
        self.connection.request(method, path, body, headers or {})
        response = self.connection.getresponse()
        data = response.read()
        if response.status != 200:
            try:
                data = json.loads(data)["error"]
            except (ValueError, KeyError):
                data = data.decode(errors="replace")
            raise Refused(response.status, data)
        return response.headers, data

    def get(self, path):
        """An answer in JSON."""
        return json.loads(self.ask("GET", path)[1])

    def statistics(self, model):
        return self.get(f"/v2/models/{model}/stats")["model_stats"][0]

    def load(self, model):
        self.ask("POST", f"/v2/repository/models/{model}/load", "{}")

    def unload(self, model):
        self.ask("POST", f"/v2/repository/models/{model}/unload", "{}")

    def infer(self, model, inputs, outputs=None, **of_inputs):
        """Arrays by name for arrays by name. `of_inputs`: what is said of every input in place of
        the truth, for requests that are wrong."""
        said, data = [], []
        for name, array in inputs.items():
            data.append(numpy.ascontiguousarray(array).tobytes())
            said.append({"name": name, "datatype": NAMES[array.dtype], "shape": list(array.shape),
                         "parameters": {"binary_data_size": len(data[-1])}, **of_inputs})
        head = {"inputs": said, "parameters": {"binary_data_output": True}}
        if outputs is not None:
            head["outputs"] = [{"name": name, "parameters": {"binary_data": True}}
                               for name in outputs]
        text = json.dumps(head).encode()
        headers, answer = self.ask("POST", f"/v2/models/{model}/infer", b"".join([text, *data]),
                                   {"Inference-Header-Content-Length": str(len(text))})
        length = int(headers["Inference-Header-Content-Length"])
        at, results = length, {}
        for output in json.loads(answer[:length])["outputs"]:
            size = output["parameters"]["binary_data_size"]
            array = numpy.frombuffer(answer[at:at + size], TYPES[output["datatype"]])
            results[output["name"]] = array.reshape(output["shape"])
            at += size
        return results


class Server:
    """A server that ends with the `with` statement. `explicit`: models are loaded by request;
    `ports`: for HTTP, gRPC and metrics, else free ones."""

    def __init__(self, repository, log, explicit=False, options=(), environment=None, ports=None):
        self.http, self.grpc, self.metrics = ports or free_ports(3)
        mode = ["--model-control-mode=explicit"] if explicit else []
        command = [server_program(), f"--model-repository={repository}",
                   f"--backend-directory={BACKENDS}", "--strict-readiness=true",
                   "--exit-timeout-secs=3", *mode, *options]
        for name in ("http", "grpc", "metrics"):
            command += [f"--{name}-address=127.0.0.1", f"--{name}-port={getattr(self, name)}"]
        self.log = Path(log)
        # The program is not Python's, and an interpreter's own variables are none of its business.
        variables = {key: value for key, value in os.environ.items()
                     if not key.startswith("PYTHON")} | (environment or {})
        with self.log.open("w") as out:
            self.process = subprocess.Popen([str(word) for word in command], stdout=out,
                                            stderr=subprocess.STDOUT, env=variables)

    def __enter__(self):
        deadline = time.monotonic() + START_SECONDS
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError("the server did not start:\n" + self.log.read_text()[-4000:])
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        self.stop()

    def is_ready(self):
        client = Client(self.http, seconds=5)
        try:
            client.ask("GET", "/v2/health/ready")
        except (OSError, http.client.HTTPException, Refused):
            return False
        finally:
            client.close()
        return True

    def is_alive(self):
        return self.process.poll() is None

    def client(self):
        return Client(self.http)

    def stop(self):
        """Ends the server, and waits for that."""
        if self.is_alive():
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()

    def memory_mib(self):
        """Memory of the process that is resident."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = [line for line in status.splitlines() if line.startswith("VmRSS")]
        return int(line.split()[1]) / 1024


def add_model(repository, name, file, config="", version=1):
    """A model of the repository: `file` is its bytes or path, and `config` what config.pbtxt says
    besides its backend."""
    folder = Path(repository) / name / str(version)
    folder.mkdir(parents=True, exist_ok=True)
    (folder.parent / "config.pbtxt").write_text(f'backend: "vulkan"\n{config}')
    if isinstance(file, bytes):
        (folder / "model.onnx").write_bytes(file)
    else:
        target = folder / ("model" + Path(file).suffix)
        target.unlink(missing_ok=True)
        target.symlink_to(Path(file).resolve())
    return folder
