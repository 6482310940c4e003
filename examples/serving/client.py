"""Sends images to the example's server, 16 of them at a time, and prints what it says of them; then
lets it continue a text, which comes token by token.

    client.py [URL]      tritonclient[http] is the one package that it needs
"""

import json
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import numpy
import tritonclient.http as triton

url = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8000"
client = triton.InferenceServerClient(url)
(output,) = client.get_model_metadata("images")["outputs"]
images = numpy.random.default_rng(0).standard_normal((64, 1, 3, 32, 32)).astype(numpy.float32)


def classify(image):
    given = triton.InferInput("image", image.shape, "FP32")
    given.set_data_from_numpy(image)
    with triton.InferenceServerClient(url) as own:  # a client is for one thread
        return int(own.infer("images", [given]).as_numpy(output["name"]).argmax())


with ThreadPoolExecutor(16) as pool:
    classes = list(pool.map(classify, images))
print("classes:", *classes)
(found,) = client.get_inference_statistics("images")["model_stats"]
print(f"{found['inference_count']} images in {found['execution_count']} batches")

prompt = {"prompt": "Once upon a time", "max_new_tokens": 16, "temperature": 0.8, "seed": 7}
asked = urllib.request.Request(f"http://{url}/v2/models/story/generate_stream",
                               json.dumps(prompt).encode())
pieces = []
with urllib.request.urlopen(asked) as events:
    for line in events:
        if line.startswith(b"data: "):
            pieces.append(json.loads(line.removeprefix(b"data: "))["text"])
print(f"{len(pieces)} responses: {''.join(pieces)!r}")
