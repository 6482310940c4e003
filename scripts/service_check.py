"""From a model to its results, with a compile service: starts one, submits a small ONNX model for
lavapipe by tv-compile, follows the log, receives the webhook, loads the engine in another process
and compares."""

import argparse
import base64
import hashlib
import hmac
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy
from onnx import TensorProto, helper, numpy_helper, save

from torch_vulkan._service.running.sandbox import bubblewrap, why_not

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from workloads.webhook_receiver import Receiver  # noqa: E402

COMMAND = [sys.executable, str(ROOT / "python" / "torch_vulkan_service.py")]
SECONDS = 300
LOADED = """
import sys, numpy, torch_vulkan as tv
engine = tv.AutoModel.from_pretrained("check/net", cache_dir=sys.argv[1])
numpy.save(sys.argv[3], engine.run({"x": numpy.load(sys.argv[2])})["y"])
"""


def model(path: Path, w: numpy.ndarray) -> None:
    """y = tanh(x w)."""
    def value(name, width):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", width])

    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Tanh", ["h"], ["y"])],
        "check", [value("x", w.shape[0])], [value("y", w.shape[1])],
        [numpy_helper.from_array(w, "w")])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)


def run(command: list[str], **variables: str) -> str:
    if command[:2] == COMMAND:
        print("$ tv-compile", " ".join(command[2:]), flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=SECONDS,
                          env=os.environ | variables)
    if done.returncode:
        sys.exit(f"service_check: status {done.returncode}\n{done.stdout}")
    return done.stdout


def receive(receiver: Receiver, secret: str, job: str) -> None:
    """The one event, with the signature that the specification asks for."""
    end = time.monotonic() + SECONDS
    while not receiver.got:
        if time.monotonic() > end:
            sys.exit("service_check: no webhook came")
        time.sleep(0.1)
    _path, headers, body = receiver.got[0]
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    code = hmac.digest(base64.b64decode(secret.removeprefix("whsec_")), signed, hashlib.sha256)
    event = json.loads(body)
    if headers["webhook-signature"] != f"v1,{base64.b64encode(code).decode()}":
        sys.exit("service_check: the webhook's signature is wrong")
    if (event["type"], event["data"]["job"]) != ("job.completed", job):
        sys.exit(f"service_check: the webhook says {event}")
    print(f"webhook {headers['webhook-id']}: {event['type']}")


def check(folder: Path, variables: dict[str, str]) -> None:
    rng = numpy.random.default_rng(0)
    w, x = (rng.standard_normal(size).astype(numpy.float32) for size in ((37, 29), (5, 37)))
    model(folder / "net.onnx", w)
    with Receiver() as receiver:
        job = json.loads(run([*COMMAND, "submit", "--model", str(folder / "net.onnx"), "--device",
                              "lavapipe", "--name", "check/net", "--job-id", "check", "--notify",
                              receiver.url, "--json"], **variables))
        print(run([*COMMAND, "logs", job["id"], "--follow"], **variables), end="")
        secret = run([*COMMAND, "webhooks", "--secret"], **variables).strip()
        receive(receiver, secret, job["id"])
    print(run([*COMMAND, "details", job["id"]], **variables), end="")
    numpy.save(folder / "x.npy", x)
    run([sys.executable, "-c", LOADED, str(folder / "cache"), str(folder / "x.npy"),
         str(folder / "y.npy")], **variables)
    numpy.testing.assert_allclose(numpy.load(folder / "y.npy"), numpy.tanh(x @ w), rtol=1e-5,
                                  atol=1e-6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-sandbox", action="store_true")
    sandbox = ["--no-sandbox"] if parser.parse_args().no_sandbox else []
    if not sandbox and (reason := why_not(bubblewrap())):
        sys.exit(f"service_check: tasks cannot be run in a sandbox: {reason}; --no-sandbox checks "
                 "the rest")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        service = subprocess.Popen([*COMMAND, "serve", "--data", str(folder / "data"), "--port",
                                    "0", "--webhook-private", *sandbox],
                                   stdout=subprocess.PIPE, text=True)
        try:
            url = re.search(r"http://\S+", service.stdout.readline())
            if not url:
                sys.exit("service_check: the service does not start")
            key = (folder / "data" / "admin.key").read_text().strip()
            check(folder, {"TORCH_VULKAN_SERVICE": url[0], "TORCH_VULKAN_API_KEY": key})
        finally:
            service.terminate()
            status = service.wait(timeout=SECONDS)
    if status:
        sys.exit(f"service_check: the service ended with status {status}")
    print("service_check: the results are right")


if __name__ == "__main__":
    main()
