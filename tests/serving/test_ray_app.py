"""The example's application for Ray Serve, with what stands for Ray's decorators: a deployment is
its class, and a batch the requests that came together. And on a real one, where an environment has
it."""

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import types
from pathlib import Path

import numpy
import pytest
import torch

import torch_vulkan as tv

from workloads.patience import patience
from workloads.postgresql import free_port
from workloads.service_process import NO_ENVIRONMENT, OWN_PYTHON, ROOT

pytest.importorskip("starlette", reason="starlette is not installed: scripts/setup.sh --tests")
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
    said = asyncio.run(module.Images(path)(Request(numpy.zeros((3, 8, 8)))))
    assert said.status_code == 400 and b"want (3, 32, 32)" in said.body


@pytest.mark.slow
@pytest.mark.skipif(bool(NO_ENVIRONMENT), reason=NO_ENVIRONMENT)
def test_ray_itself(tmp_path):
    """Answers are the engine's, and what is wrong is refused and harms nobody."""
    if subprocess.run([OWN_PYTHON, "-c", "import ray.serve"], capture_output=True).returncode:
        pytest.skip("no Ray Serve: make service-environment installs it")
    made = subprocess.run([sys.executable, SERVING / "make_model.py", tmp_path], text=True,
                          capture_output=True, check=True)
    path, _ = made.stdout.splitlines()
    data = numpy.random.default_rng(0).normal(size=(48, 3, 32, 32)).astype("float32")
    numpy.save(tmp_path / "images.npy", data)
    torchs = Path(torch.__file__).parents[1]
    done = subprocess.run(
        [OWN_PYTHON, Path(__file__).with_name("ray_serve.py"), str(free_port()), path,
         tmp_path / "images.npy", tmp_path / "answers.json"],
        text=True, capture_output=True, timeout=patience(600),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (
            ROOT / "python", SERVING, torchs)))})
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    answers = json.loads((tmp_path / "answers.json").read_text())
    engine = tv.Engine.load(path)
    for image, (status, text) in zip([*data, data[0]], answers["good"], strict=True):
        (want,) = engine.run({"image": torch.from_numpy(image[None])}).values()
        assert status == 200, text
        numpy.testing.assert_allclose(json.loads(text)["scores"], want[0], rtol=1e-4, atol=1e-5)
    assert len(answers["wrong"]) == 4
    for status, text in answers["wrong"]:
        assert status == 400 and "error" in json.loads(text), text
