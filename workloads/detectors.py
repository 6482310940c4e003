"""Small detectors as torch.onnx exports those of torchvision: their networks are torch's, and
boxes are chosen by operators that become NonMaxSuppression and RoiAlign."""

import torch
from torch import nn
from torch.nn import functional as F

LIMIT = 4.135  # of the logarithm of a scale: ln(1000 / 16)


@torch.library.custom_op("tv_detectors::nms", mutates_args=())
def nms(boxes: torch.Tensor, scores: torch.Tensor, overlap: float, most: int) -> torch.Tensor:
    """Indices (kept) of the boxes (n, 4; corners) that no box of a higher score (n) overlaps by
    more than `overlap`, at most `most`, the highest score first. It is exported, not run."""
    raise NotImplementedError("exported, not run")


@nms.register_fake
def _(boxes, scores, overlap, most):
    return boxes.new_empty((torch.library.get_ctx().new_dynamic_size(),), dtype=torch.int64)


@torch.library.custom_op("tv_detectors::roi_align", mutates_args=())
def roi_align(x: torch.Tensor, boxes: torch.Tensor, scale: float, size: int) -> torch.Tensor:
    """The regions (r, channels, size, size) of an image's features (1, channels, h, w) in boxes
    (r, 4; corners in pixels of the image, of which a feature has 1 / scale). It is exported, not
    run."""
    raise NotImplementedError("exported, not run")


@roi_align.register_fake
def _(x, boxes, scale, size):
    return x.new_empty((boxes.shape[0], x.shape[1], size, size))


def translations():
    """What torch.onnx.export takes as `custom_translation_table`."""
    from onnxscript import opset18 as op

    def to_nms(boxes, scores, overlap: float, most: int):
        chosen = op.NonMaxSuppression(
            op.Unsqueeze(boxes, op.Constant(value_ints=[0])),
            op.Unsqueeze(scores, op.Constant(value_ints=[0, 1])),
            op.Constant(value_ints=[most]), op.Constant(value_floats=[overlap]))
        return op.Squeeze(op.Slice(chosen, op.Constant(value_ints=[2]),
                                   op.Constant(value_ints=[3]), op.Constant(value_ints=[1])),
                          op.Constant(value_ints=[1]))

    def to_roi_align(x, boxes, scale: float, size: int):
        of_image = op.Expand(op.Constant(value_ints=[0]),
                             op.Slice(op.Shape(boxes), op.Constant(value_ints=[0]),
                                      op.Constant(value_ints=[1])))
        return op.RoiAlign(x, boxes, of_image, output_height=size, output_width=size,
                           sampling_ratio=2, spatial_scale=scale)

    return {torch.ops.tv_detectors.nms.default: to_nms,
            torch.ops.tv_detectors.roi_align.default: to_roi_align}


def priors(height: int, width: int, stride: int, sizes) -> torch.Tensor:
    """Boxes (height · width · sizes, 4): centre and size in pixels."""
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    centre = torch.stack([x, y], -1).reshape(-1, 1, 2).add(0.5) * stride
    size = torch.tensor([[w, h] for w, h in sizes], dtype=torch.float32)
    return torch.cat([centre.expand(-1, len(size), 2), size.expand(len(centre), -1, 2)],
                     -1).reshape(-1, 4)


def decode(offsets: torch.Tensor, boxes: torch.Tensor, image: int) -> torch.Tensor:
    """Corners (…, 4), inside the image, of boxes (…, 4; centre and size) that are moved and scaled
    by offsets (…, 4)."""
    centre = boxes[..., :2] + offsets[..., :2] * 0.1 * boxes[..., 2:]
    half = boxes[..., 2:] * (offsets[..., 2:] * 0.2).clamp(max=LIMIT).exp() / 2
    return torch.cat([centre - half, centre + half], -1).clamp(0, image)


def _block(inputs, outputs, stride):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
                         nn.BatchNorm2d(outputs), nn.ReLU())


class Ssd(nn.Module):
    """Boxes and classes from feature maps of several sizes: W. Liu et al., SSD, 2016. An image
    (1, 3, 64, 64) → boxes (kept, 4), scores (kept), classes (kept)."""

    IMAGE = 64

    def __init__(self, classes=5, width=16):
        super().__init__()
        self.stem = nn.Sequential(_block(3, width, 2), _block(width, width, 2),
                                  _block(width, width, 2))
        self.further = nn.ModuleList(
            nn.Sequential(nn.Conv2d(width, width, 1), nn.ReLU(), _block(width, width, 2))
            for _ in range(2))
        sizes = [[(12, 12), (16, 8), (8, 16)], [(24, 24), (32, 16), (16, 32)],
                 [(48, 48), (60, 30), (30, 60)]]
        self.register_buffer("priors", torch.cat([
            priors(n, n, self.IMAGE // n, of) for n, of in zip((8, 4, 2), sizes, strict=True)]))
        self.offsets = nn.ModuleList(nn.Conv2d(width, 3 * 4, 3, padding=1) for _ in sizes)
        self.scores = nn.ModuleList(nn.Conv2d(width, 3 * (classes + 1), 3, padding=1)
                                    for _ in sizes)
        self.classes = classes

    def forward(self, image):
        x = self.stem(image)
        maps = [x]
        for layer in self.further:
            x = layer(x)
            maps.append(x)

        def rows(heads, values):
            return torch.cat([head(x).permute(0, 2, 3, 1).reshape(-1, values)
                              for head, x in zip(heads, maps, strict=True)])

        boxes = decode(rows(self.offsets, 4), self.priors, self.IMAGE)
        scores = rows(self.scores, self.classes + 1).softmax(-1)
        found = []
        for c in range(self.classes):
            kept = nms(boxes, scores[:, c + 1], 0.45, 10)
            found.append((boxes[kept], scores[kept, c + 1], torch.full_like(kept, c)))
        return tuple(torch.cat(parts) for parts in zip(*found, strict=True))


class FasterRcnn(nn.Module):
    """Regions that a network proposes, and a second one that tells what is in them: S. Ren et al.,
    Faster R-CNN, 2015, with the feature pyramid of T.-Y. Lin et al., 2017 (two of its levels). An
    image (1, 3, 64, 64) → boxes (regions, classes, 4) and scores (regions, classes)."""

    IMAGE = 64

    def __init__(self, classes=5, width=16, proposals=12):
        super().__init__()
        self.fine = nn.Sequential(_block(3, width, 2), _block(width, width, 2))
        self.coarse = _block(width, width, 2)
        self.lateral = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(2))
        self.smooth = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.proposing = nn.Conv2d(width, width, 3, padding=1)
        self.objectness, self.offsets = nn.Conv2d(width, 3, 1), nn.Conv2d(width, 12, 1)
        sizes = [[(12, 12), (16, 8), (8, 16)], [(32, 32), (44, 22), (22, 44)]]
        self.register_buffer("anchors", torch.cat([
            priors(n, n, self.IMAGE // n, of) for n, of in zip((16, 8), sizes, strict=True)]))
        self.head = nn.Sequential(nn.Linear(width * 25, 48), nn.ReLU(), nn.Linear(48, 48),
                                  nn.ReLU())
        self.box, self.score = nn.Linear(48, 4 * classes), nn.Linear(48, classes + 1)
        self.classes, self.proposals = classes, proposals

    def forward(self, image):
        fine = self.fine(image)
        coarse = self.lateral[1](self.coarse(fine))
        fine = self.smooth[0](self.lateral[0](fine) + F.interpolate(coarse, scale_factor=2.0))
        maps = [fine, self.smooth[1](coarse)]

        hidden = [torch.relu(self.proposing(x)) for x in maps]
        objects = torch.cat([self.objectness(x).permute(0, 2, 3, 1).reshape(-1) for x in hidden])
        offsets = torch.cat([self.offsets(x).permute(0, 2, 3, 1).reshape(-1, 4) for x in hidden])
        best, which = objects.topk(100)
        boxes = decode(offsets[which], self.anchors[which], self.IMAGE)
        regions = boxes[nms(boxes, best.sigmoid(), 0.7, self.proposals)]

        # By its level's size (Lin et al., equation 1), as a choice for each region.
        large = ((regions[:, 2:] - regions[:, :2]).prod(-1) > 24.0 ** 2)[:, None, None, None]
        x = torch.where(large, roi_align(maps[1], regions, 1 / 8, 5),
                        roi_align(maps[0], regions, 1 / 4, 5))
        x = self.head(x.flatten(1))
        centred = torch.cat([(regions[:, :2] + regions[:, 2:]) / 2,
                             regions[:, 2:] - regions[:, :2]], -1)
        boxes = decode(self.box(x).unflatten(1, (self.classes, 4)), centred[:, None], self.IMAGE)
        return boxes, self.score(x).softmax(-1)[:, 1:]
