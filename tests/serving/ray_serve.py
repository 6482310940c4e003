"""The example's application on a Ray Serve of its own, run by the Python that has Ray:

    python tests/serving/ray_serve.py PORT ENGINE.vke IMAGES.npy ANSWERS.json

Sends each image, 8 at a time, then what is no image, and an image again; writes the status and text
of each answer. Ends by itself.
"""

import json
import os
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

# A busy machine is slower than Ray expects; its workers are polite beyond that.
os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0",
               "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "300",
               "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "300"}

import numpy  # noqa: E402
import ray  # noqa: E402
import ray.serve._private.api as serve_api  # noqa: E402
from ray import serve  # noqa: E402
from ray_app import Images  # noqa: E402

serve_api.HTTP_PROXY_TIMEOUT = 300
port, engine, images = int(sys.argv[1]), sys.argv[2], numpy.load(sys.argv[3])


def answer(sent) -> tuple[int, str]:
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/", sent.encode())
    try:
        with urllib.request.urlopen(asked, timeout=300) as came:
            return came.status, came.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


ray.init(num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1",
         object_store_memory=80 << 20, log_to_driver=False)
try:
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    serve.run(Images.bind(engine))
    with ThreadPoolExecutor(8) as pool:
        good = list(pool.map(answer, [json.dumps(image.tolist()) for image in images]))
    wrong = [answer(text) for text in ("[1]", "{}", "no JSON", json.dumps([[1], [2, 3]]))]
    good.append(answer(json.dumps(images[0].tolist())))
    with open(sys.argv[4], "w") as file:
        json.dump({"good": good, "wrong": wrong}, file)
finally:
    serve.shutdown()
    ray.shutdown()
