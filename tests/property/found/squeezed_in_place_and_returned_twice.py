"""What one name is, squeezed in place, another is, too: the same object, not two that share memory,
of which PyTorch 2.13 cannot trace writes where sizes vary."""

import torch
import torch.nn.functional as F
from program_values import Affine, huge, numbers

MODE, DYNAMIC, CALLS = "grad", None, 3
OPTIONS = {}


def inputs(call, state):
    n = (8, 8, 13)[call]
    m = 2
    x = numbers((n, 4), torch.int16, 34).unsqueeze(1)
    y = numbers((n * m,), torch.int64, 50)
    y = y.expand(3, *y.shape)
    j = (1, 4, 5)[call]
    return (x, y, j,)


def program(x, y, j):
    v1 = y.min(1)[0]
    v2 = y.floor()
    v2.squeeze_()
    v3 = v2.contiguous()
    v10 = v3.tolist()
    v11 = v2.masked_fill(v2 < 0, (j * 2))
    v3.index_copy_(0, torch.tensor([0]), v3.narrow(0, -1, 1).clone())
    v12, v13, v14 = v3.unbind(0)
    v15 = v12.argmax(0)
    v16 = v15 ** 2
    v17 = v14.reshape(-1)
    return [v15, v1, v3, v2, v17, x]
