"""Loads the library of this folder and compiles a model that needs it.

    cmake -S examples/cpp_converter -B build/grey \\
        -DCMAKE_PREFIX_PATH=$(python -c "import torch_vulkan as tv; print(tv.cmake_prefix_path)")
    cmake --build build/grey && python examples/cpp_converter/run.py build/grey/grey_converter.so
"""

import sys

import torch

import torch_vulkan as tv


@torch.library.custom_op("images::grey", mutates_args=())
def grey(image: torch.Tensor, gamma: bool) -> torch.Tensor:
    """What runs outside of engines."""
    weights = torch.tensor([0.299, 0.587, 0.114], dtype=image.dtype, device=image.device)
    luma = (image * weights[:, None, None]).sum(1, keepdim=True)
    return luma.clamp(min=0) ** (1 / 2.2) if gamma else luma


@grey.register_fake
def _(image, gamma):
    return image.new_empty((image.shape[0], 1, *image.shape[2:]))


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.edges = torch.nn.Conv2d(1, 4, 3, padding=1)

    def forward(self, image):
        return self.edges(grey(image * 0.5, True) + 0.1).relu()


def main(library):
    print("operators added:", *tv.load_library(library))
    torch.manual_seed(0)
    network, image = Network().eval(), torch.rand(2, 3, 37, 53)
    fast = torch.compile(network, backend="vulkan", options={"require_full_compilation": True})
    with torch.no_grad():
        print("difference:", (fast(image) - network(image)).abs().max().item())


if __name__ == "__main__":
    main(sys.argv[1])
