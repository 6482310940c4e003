"""What Triton's own client sees of a model: run by its environment's Python, beside a server.

    conformance.py HTTP_PORT GRPC_PORT MODEL FOLDER      FOLDER has x.npy and want.npz
"""

import os
import sys
import time
from pathlib import Path

import numpy
import tritonclient.grpc
import tritonclient.http
import tritonclient.utils.shared_memory as shared_memory
from tritonclient.utils import InferenceServerException

# Names that all processes of the machine share.
GIVEN, TAKEN = (f"/tv_{name}_{os.getpid()}" for name in ("given", "taken"))


def infer(library, client, model, x, **how):
    given = library.InferInput("x", x.shape, "FP32")
    given.set_data_from_numpy(x, **how)
    outputs = [library.InferRequestedOutput(name, **how) for name in ("y", "h")]
    return client.infer(model, [given], outputs=outputs)


def unregister(client):
    """Ends the use of shared memory: a request has its until after it was answered."""
    for attempts_left in reversed(range(50)):
        try:
            return client.unregister_system_shared_memory()
        except InferenceServerException:
            if attempts_left == 0:
                raise
            time.sleep(0.1)


def check_shared_memory(library, client, model, x, want):
    """Inputs and an output in memory that the server shares."""
    given = shared_memory.create_shared_memory_region("given", GIVEN, x.nbytes)
    taken = shared_memory.create_shared_memory_region("taken", TAKEN, want["y"].nbytes)
    try:
        shared_memory.set_shared_memory_region(given, [x])
        client.register_system_shared_memory("given", GIVEN, x.nbytes)
        client.register_system_shared_memory("taken", TAKEN, want["y"].nbytes)
        source = library.InferInput("x", x.shape, "FP32")
        source.set_shared_memory("given", x.nbytes)
        target = library.InferRequestedOutput("y")
        target.set_shared_memory("taken", want["y"].nbytes)
        client.infer(model, [source], outputs=[target])
        result = shared_memory.get_contents_as_numpy(taken, numpy.float32, want["y"].shape)
        numpy.testing.assert_array_equal(result, want["y"])
        small = library.InferRequestedOutput("y")
        small.set_shared_memory("taken", want["y"].nbytes - 4)
        try:
            client.infer(model, [source], outputs=[small])
            raise AssertionError("an output that is too small was accepted")
        except InferenceServerException:
            pass
    finally:
        unregister(client)
        shared_memory.destroy_shared_memory_region(given)
        shared_memory.destroy_shared_memory_region(taken)


def main(http_port, grpc_port, model, folder):
    x, want = numpy.load(folder / "x.npy"), numpy.load(folder / "want.npz")
    for library, port in ((tritonclient.http, http_port), (tritonclient.grpc, grpc_port)):
        client = library.InferenceServerClient(f"127.0.0.1:{port}")
        assert client.is_server_live() and client.is_server_ready()
        assert client.is_model_ready(model)
        assert client.get_server_metadata() and client.get_model_metadata(model)
        assert client.get_model_config(model)
        binary = ({"binary_data": True}, {"binary_data": False})
        for how in binary if library is tritonclient.http else ({},):
            result = infer(library, client, model, x, **how)
            for name in ("y", "h"):
                got = result.as_numpy(name)
                if how.get("binary_data", True):
                    numpy.testing.assert_array_equal(got, want[name])
                else:  # decimals
                    numpy.testing.assert_allclose(got, want[name], rtol=1e-6)
        check_shared_memory(library, client, model, x, want)
        assert client.get_inference_statistics(model)
        client.close()
    print("conforms")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
