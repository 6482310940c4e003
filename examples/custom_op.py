"""An operator with a kernel of one's own: declared once, it runs in eager mode and in engines.

    python examples/custom_op.py
"""

import torch

import torch_vulkan as tv

SHADER = """
// out = x * sigmoid(gain * x), one invocation for each element
void main() {
  uint i = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (i >= out_numel) return;
  float v = x_load(i);
  out_store(i, v / (1.0 + tv_exp(-gain * v)));
}
"""

swish = tv.custom_op("examples::swish", "(Tensor x, float gain) -> Tensor out", SHADER, grid=None,
                     shapes=lambda x, gain: torch.empty_like(x))


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(64, 64), torch.nn.Linear(64, 8)

    def forward(self, x):
        return self.last(swish(self.first(x), 1.5))


def main():
    torch.manual_seed(0)
    network, x = Network().eval(), torch.randn(16, 64)
    fast = torch.compile(network, backend="vulkan", options={"min_block_size": 1})
    with torch.no_grad():
        hidden = network.first(x)
        wanted = network.last(hidden * torch.sigmoid(1.5 * hidden))
        print("eager:   ", (network(x) - wanted).abs().max().item())
        print("compiled:", (fast(x) - wanted).abs().max().item())
        print(tv.dry_run(network, [x], min_block_size=1))


if __name__ == "__main__":
    main()
