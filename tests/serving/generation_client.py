"""Sends requests to decoders over one gRPC stream, by Triton's own client: run by its environment's
Python, beside a server.

    generation_client.py GRPC_PORT      a list of requests in JSON on standard input

A request: {"model", "inputs": {name: [datatype, values]}}, with "outputs" where not all are wanted,
and "cancel_after": responses until the stream is given up. Prints, in their order, for each request
its responses: {"text", "tokens", "finish_reason", "final", "place" (of all that arrived)}, or
{"error"}.
"""

import itertools
import json
import queue
import sys

import numpy
import tritonclient.grpc as triton

TYPES = {"BYTES": object, "INT64": numpy.int64, "FP64": numpy.float64, "FP32": numpy.float32,
         "INT32": numpy.int32}
SECONDS = 240


def tensor(name, datatype, values):
    array = numpy.array([v.encode() if isinstance(v, str) else v for v in values], TYPES[datatype])
    made = triton.InferInput(name, array.shape, datatype)
    made.set_data_from_numpy(array)
    return made


def shown(result):
    """A response's tensors, and whether it is the last."""
    response = result.get_response()
    found = {"final": response.parameters["triton_final_response"].bool_param}
    for output in response.outputs:
        values = result.as_numpy(output.name).tolist()
        if output.datatype == "BYTES":
            (value,) = values
            values = value.decode()
        found[output.name] = values
    return response.id, found


def main(port, requests):
    answers, arrived = [[] for _ in requests], queue.Queue()
    client = triton.InferenceServerClient(f"127.0.0.1:{port}")
    client.start_stream(lambda result, error: arrived.put((result, error)))
    for number, request in enumerate(requests):
        inputs = [tensor(name, *given) for name, given in request["inputs"].items()]
        outputs = [triton.InferRequestedOutput(name) for name in request.get("outputs", [])]
        client.async_stream_infer(request["model"], inputs, outputs=outputs or None,
                                  request_id=str(number), enable_empty_final_response=True)
    open_ones = set(range(len(requests)))
    for place in itertools.count():
        if not open_ones:
            client.stop_stream()
            break
        result, error = arrived.get(timeout=SECONDS)
        if error:  # which does not say whose it is: such requests are alone on their stream
            answers[min(open_ones)].append({"error": error.message()})
            open_ones.discard(min(open_ones))
            continue
        identity, found = shown(result)
        number = int(identity)
        answers[number].append(found | {"place": place})
        if found["final"]:
            open_ones.discard(number)
        elif len(answers[number]) == requests[number].get("cancel_after"):
            client.stop_stream(cancel_requests=True)
            break
    print(json.dumps(answers))


if __name__ == "__main__":
    main(int(sys.argv[1]), json.load(sys.stdin))
