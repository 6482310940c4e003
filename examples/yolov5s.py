"""YOLOv5s (release 6.0), written from its published description, run in one Vulkan engine.

Usage: python examples/yolov5s.py [--size 640]
"""

import argparse

import torch
from torch import nn

ANCHORS = (
    ((10, 13), (16, 30), (33, 23)),
    ((30, 61), (62, 45), (59, 119)),
    ((116, 90), (156, 198), (373, 326)),
)
STRIDES = (8, 16, 32)


def conv(cin, cout, k=1, s=1, p=None):
    """Convolution, batch norm, SiLU."""
    p = k // 2 if p is None else p
    return nn.Sequential(
        nn.Conv2d(cin, cout, k, s, p, bias=False), nn.BatchNorm2d(cout, eps=1e-3), nn.SiLU()
    )


class Bottleneck(nn.Module):
    def __init__(self, c, shortcut):
        super().__init__()
        self.cv1, self.cv2, self.add = conv(c, c, 1), conv(c, c, 3), shortcut

    def forward(self, x):
        y = self.cv2(self.cv1(x))
        return x + y if self.add else y


class C3(nn.Module):
    """Cross-stage-partial block with three convolutions and n bottlenecks."""

    def __init__(self, cin, cout, n=1, shortcut=True):
        super().__init__()
        self.cv1, self.cv2, self.cv3 = conv(cin, cout // 2), conv(cin, cout // 2), conv(cout, cout)
        self.m = nn.Sequential(*(Bottleneck(cout // 2, shortcut) for _ in range(n)))

    def forward(self, x):
        return self.cv3(torch.cat((self.m(self.cv1(x)), self.cv2(x)), 1))


class SPPF(nn.Module):
    """Spatial pyramid pooling, as three 5x5 max pools in a row."""

    def __init__(self, c):
        super().__init__()
        self.cv1, self.cv2 = conv(c, c // 2), conv(c * 2, c)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x):
        x = self.cv1(x)
        y1 = self.pool(x)
        y2 = self.pool(y1)
        return self.cv2(torch.cat((x, y1, y2, self.pool(y2)), 1))


class Detect(nn.Module):
    """Boxes (x, y, w, h in pixels), objectness and class scores: (n, boxes, 5 + classes)."""

    def __init__(self, classes, channels):
        super().__init__()
        self.no = classes + 5
        self.strides = STRIDES
        self.m = nn.ModuleList(nn.Conv2d(c, self.no * 3, 1) for c in channels)
        self.register_buffer("anchors", torch.tensor(ANCHORS, dtype=torch.float32))

    def forward(self, features: list[torch.Tensor]):
        out = []
        for i, m in enumerate(self.m):
            x = features[i]
            n, _, h, w = x.shape
            y = m(x).view(n, 3, self.no, h, w).permute(0, 1, 3, 4, 2).sigmoid()
            gx = torch.arange(w, device=x.device).view(1, 1, 1, w).expand(1, 1, h, w)
            gy = torch.arange(h, device=x.device).view(1, 1, h, 1).expand(1, 1, h, w)
            grid = torch.stack((gx, gy), -1).to(x.dtype) - 0.5
            xy = (y[..., 0:2] * 2 + grid) * self.strides[i]
            wh = (y[..., 2:4] * 2) ** 2 * self.anchors[i].view(1, 3, 1, 1, 2)
            out.append(torch.cat((xy, wh, y[..., 4:]), 4).view(n, -1, self.no))
        return torch.cat(out, 1)


class YOLOv5s(nn.Module):
    def __init__(self, classes=80):
        super().__init__()
        self.p3 = nn.Sequential(conv(3, 32, 6, 2, 2), conv(32, 64, 3, 2), C3(64, 64, 1),
                                conv(64, 128, 3, 2), C3(128, 128, 2))
        self.p4 = nn.Sequential(conv(128, 256, 3, 2), C3(256, 256, 3))
        self.p5 = nn.Sequential(conv(256, 512, 3, 2), C3(512, 512, 1), SPPF(512), conv(512, 256))
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.h4, self.h4_out = C3(512, 256, 1, False), conv(256, 128)
        self.h3, self.d3 = C3(256, 128, 1, False), conv(128, 128, 3, 2)
        self.n4, self.d4 = C3(256, 256, 1, False), conv(256, 256, 3, 2)
        self.n5 = C3(512, 512, 1, False)
        self.detect = Detect(classes, (128, 256, 512))

    def forward(self, x):
        p3 = self.p3(x)
        p4 = self.p4(p3)
        p5 = self.p5(p4)
        h4 = self.h4_out(self.h4(torch.cat((self.up(p5), p4), 1)))
        o3 = self.h3(torch.cat((self.up(h4), p3), 1))
        o4 = self.n4(torch.cat((self.d3(o3), h4), 1))
        o5 = self.n5(torch.cat((self.d4(o4), p5), 1))
        return self.detect([o3, o4, o5])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=640, help="image size, a multiple of 32")
    size = parser.parse_args().size
    torch.manual_seed(0)
    model, image = YOLOv5s().eval(), torch.rand(1, 3, size, size)
    with torch.no_grad():
        boxes = torch.compile(model, backend="vulkan")(image)
        reference = model(image)
    error = ((boxes - reference).abs().max() / reference.abs().max()).item()
    print(f"{boxes.shape[1]} boxes, largest error against eager {error:.1e} of the largest value")


if __name__ == "__main__":
    main()
