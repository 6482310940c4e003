# Two commands do all the set-up they need: `make demo` and `make test`.

PYTHON := .venv/bin/python

.PHONY: demo build test test-all soak service service-check service-environment wheel onnxruntime-provider \
  triton-backend serve images clean
.DEFAULT_GOAL := build

## ResNet-50 through torch.compile(model, backend="vulkan") on the best Vulkan device.
demo:
	@scripts/setup.sh
	@$(PYTHON) examples/demo.py

## System packages, the virtual environment and the libraries.
build:
	@scripts/setup.sh

## The test suite, C++ and Python. Once the libraries are built the tests take some 25 minutes on 2
## cores that nobody else uses, and 35 where others do; each part says how long it took.
test:
	@scripts/setup.sh --tests
	@scripts/test.sh

## Everything, the slow tests too.
test-all:
	@scripts/setup.sh --tests
	@scripts/test.sh --all

## An hour of very many calls, compilations, loads and shapes, then half an hour of threads and
## of processes that end.
soak:
	@scripts/setup.sh --tests
	@$(PYTHON) tests/soak/soak.py
	@$(PYTHON) tests/soak/threads.py

## The compile service on this machine, for devices of this machine (docs/service.md).
service:
	@scripts/setup.sh --service
	@.venv/bin/tv-compile serve --data .service --host 127.0.0.1 --port 8600

## Starts a compile service, submits a small model to it, and compares what its engine gives.
service-check:
	@scripts/setup.sh --service
	@$(PYTHON) scripts/service_check.py

## What tests of the service on clusters, stores and PostgreSQL need; installs PostgreSQL's server.
service-environment:
	@scripts/setup.sh --tests
	@scripts/service_environment.sh

## A wheel for other machines: dist/torch_vulkan-*-manylinux*.whl.
wheel:
	@scripts/setup.sh
	@$(PYTHON) scripts/make_wheel.py

## ONNX Runtime's provider and its wheel: dist/onnxruntime_ep_vulkan-*.whl (docs/onnxruntime.md).
onnxruntime-provider:
	@scripts/setup.sh --provider
	@$(PYTHON) scripts/make_provider_wheel.py

## Triton's backend with what it needs: the folder dist/triton/vulkan (docs/triton.md).
triton-backend:
	@scripts/setup.sh --triton
	@$(PYTHON) scripts/make_triton_backend.py

## A Triton server with the models of examples/serving, on 127.0.0.1.
serve:
	@scripts/setup.sh --triton
	@scripts/triton_fixture.sh >.setup/triton_folder
	@$(PYTHON) scripts/serve.py

## The container images, built by buildah on a base of Debian's packages (docs/images.md).
images:
	@scripts/images.sh

clean:
	rm -rf build build-* dist .setup python/torch_vulkan/lib \
	  integrations/onnxruntime/python/onnxruntime_ep_vulkan/*.so
