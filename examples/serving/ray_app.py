"""The example's engine behind Ray Serve, for those who have Ray (pip install "ray[serve]").

    python examples/serving/make_model.py
    cd examples/serving && serve run ray_app:app      then POST an image as JSON to port 8000
"""

from pathlib import Path

import numpy
from ray import serve
from starlette.responses import JSONResponse

import torch_vulkan as tv

ENGINE = Path(__file__).parent / "repository" / "images" / "1" / "model.vke"


@serve.deployment(max_ongoing_requests=64)
class Images:
    """One engine a replica; requests that wait for each other's batch share a call."""

    def __init__(self, path=ENGINE):
        self.engine = tv.Engine.load(path)
        (self.output,) = [output["name"] for output in self.engine.info()["outputs"]]

    @serve.batch(max_batch_size=16, batch_wait_timeout_s=0.002)
    async def classify(self, images):
        scores = self.engine.run({"image": numpy.stack(images)})[self.output]
        return list(scores)

    async def __call__(self, request):
        try:
            image = numpy.asarray(await request.json(), numpy.float32)
            if image.shape != (3, 32, 32):
                raise ValueError(f"got an image of {image.shape}, want (3, 32, 32)")
        except (TypeError, ValueError) as error:
            return JSONResponse({"error": str(error)}, 400)
        scores = await self.classify(image)
        return {"class": int(scores.argmax()), "scores": scores.tolist()}


app = Images.bind()
