"""The example's application for Ray Serve, with what stands for Ray's decorators: a deployment is
its class, and a batch the requests that came together."""

import asyncio
import importlib.util
import json
import subprocess
import sys
import types
from pathlib import Path

import numpy
import pytest
import torch

import torch_vulkan as tv

SERVING = Path(__file__).resolve().parents[2] / "examples" / "serving"


class Batched:
    """A method that is given what its callers gave, as a list."""

    def __init__(self, method, most):
        self.method, self.most, self.waiting, self.sizes = method, most, [], []

    def __get__(self, owner, kind=None):
        return lambda item: self.call(owner, item)

    async def call(self, owner, item):
        future = asyncio.get_running_loop().create_future()
        self.waiting.append((item, future))
        await asyncio.sleep(0)  # until others wait, too
        if not future.done():
            together, self.waiting = self.waiting[:self.most], self.waiting[self.most:]
            self.sizes.append(len(together))
            results = await self.method(owner, [given for given, _ in together])
            for (_, waits), result in zip(together, results, strict=True):
                waits.set_result(result)
        return await future


class Request:
    def __init__(self, image):
        self.text = json.dumps(image.tolist())

    async def json(self):
        return json.loads(self.text)


@pytest.fixture
def app(tmp_path, monkeypatch):
    """The module, and the path of its engine."""
    made = subprocess.run([sys.executable, SERVING / "make_model.py", tmp_path], text=True,
                          capture_output=True, check=True)

    def deployment(**options):
        def decorate(kind):
            kind.bind = classmethod(lambda bound, *arguments: (bound, arguments))
            return kind
        return decorate

    serve = types.SimpleNamespace(
        deployment=deployment,
        batch=lambda max_batch_size, batch_wait_timeout_s: (
            lambda method: Batched(method, max_batch_size)))
    ray = types.ModuleType("ray")
    ray.serve = serve
    monkeypatch.setitem(sys.modules, "ray", ray)
    spec = importlib.util.spec_from_file_location("ray_app", SERVING / "ray_app.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    engine, _ = made.stdout.splitlines()  # the decoder is Triton's alone
    return module, engine


def test_requests_share_a_call(app):
    module, path = app
    assert module.app == (module.Images, ())
    images = module.Images(path)
    data = numpy.random.default_rng(0).normal(size=(5, 3, 32, 32)).astype("float32")

    async def ask():
        return await asyncio.gather(*(images(Request(image)) for image in data))

    answers = asyncio.run(ask())
    (want,) = tv.Engine.load(path).run({"image": torch.from_numpy(data)}).values()
    for answer, scores in zip(answers, want, strict=True):
        numpy.testing.assert_allclose(answer["scores"], scores, rtol=1e-4, atol=1e-5)
        assert answer["class"] == int(scores.argmax())
    assert vars(module.Images)["classify"].sizes == [5]


def test_an_image_of_another_size(app):
    module, path = app
    with pytest.raises(ValueError, match="want \\(3, 32, 32\\)"):
        asyncio.run(module.Images(path)(Request(numpy.zeros((3, 8, 8)))))
