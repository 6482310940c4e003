"""Checkpoints of AWQ and GPTQ: safetensors files with weights of 4 and 8 bits in words of 32.

Of a linear layer [in, out] they hold scales [groups, out], qzeros [groups, out · bits / 32] and

- AWQ: qweight [in, out · bits / 32], the columns of a word in the order of AWQ_ORDER, as those of
  its qzeros;
- GPTQ: qweight [in · bits / 32, out], and g_idx [in], the group of each input. Zero points are one
  less than they mean ("gptq"), or as they are ("gptq_v2").
"""

import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

from .._fx.quantised_scales import check_scale
from .modules import Form, Packed, QuantizedLinear

AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # of columns, by their place in a word, the lowest bits first
LAYOUTS = ("awq", "gptq", "gptq_v2")
_PARTS = ("qweight", "qzeros", "scales", "g_idx")
_FORMS = {4: Form("int4", 4), 8: Form("int8", 8)}


@dataclass
class Checkpoint:
    """Tensors by name, read when they are asked for.

    Attributes:
        place: what messages call it.
        layout: what its configuration says, one of LAYOUTS or None.
    """

    place: str
    layout: str | None = None
    files: dict[str, object] = field(default_factory=dict)  # name → what has it

    def __getitem__(self, name: str) -> torch.Tensor:
        source = self.files[name]
        return source if isinstance(source, torch.Tensor) else source.get_tensor(name)

    def layers(self) -> Iterator[str]:
        """Names of layers that it has packed."""
        for name in self.files:
            if name.endswith("qweight"):
                yield name.removesuffix("qweight").removesuffix(".")

    def others(self) -> list[str]:
        return [name for name in self.files if name.rpartition(".")[2] not in _PARTS]


def opened(checkpoint, stack: ExitStack) -> Checkpoint:
    """Opens a .safetensors file, a folder of such, or a dict of tensors; `stack` closes it.

    Raises:
        FileNotFoundError, ValueError: it is none of these, damaged, or of an unknown layout.
    """
    if isinstance(checkpoint, Mapping):
        return Checkpoint("checkpoint", files=dict(checkpoint))
    from safetensors import SafetensorError, safe_open

    path = Path(checkpoint)
    if not path.exists():
        raise FileNotFoundError(f"tv.quantize: {path} does not exist")
    paths = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    if not paths:
        raise ValueError(f"tv.quantize: {path} has no .safetensors file")
    found = Checkpoint(str(path), _configured(path if path.is_dir() else path.parent))
    for file in paths:
        try:
            tensors = stack.enter_context(safe_open(file, framework="pt"))
        except SafetensorError as error:
            raise ValueError(f"tv.quantize: {file} is no .safetensors file, or it is damaged "
                             f"({error})") from error
        found.files.update(dict.fromkeys(tensors.keys(), tensors))
    return found


def _configured(folder: Path) -> str | None:
    """The layout that a checkpoint's configuration names."""
    for file, key in (("quantize_config.json", None), ("config.json", "quantization_config")):
        if not (folder / file).is_file():
            continue
        try:
            values = json.loads((folder / file).read_text())
            values = values.get(key) if key else values
        except (ValueError, AttributeError) as error:
            raise ValueError(f"tv.quantize: {folder / file} is damaged ({error})") from error
        if isinstance(values, dict):
            return _layout_of(folder / file, values)
    return None


def _layout_of(file: Path, values: dict) -> str | None:
    method = str(values.get("quant_method", "")).lower()
    version = str(values.get("version", "gemm")).lower()
    form = str(values.get("checkpoint_format") or values.get("format") or "gptq").lower()
    if method == "awq":
        form = "awq" if version == "gemm" else version
    elif method not in ("", "gptq"):
        form = method
    if form not in LAYOUTS:
        raise ValueError(f"tv.quantize: {file} names the layout {form!r}; known are "
                         f"{list(LAYOUTS)} ('gemm' of AWQ)")
    # Without a method both kinds may be meant: shapes tell.
    return form if method or form == "gptq_v2" else None


def load(model: nn.Module, checkpoint: Checkpoint, layout: str | None) -> nn.Module:
    """Replaces linear layers by packed ones and loads every other tensor; changes `model` and
    returns it, or the layer that takes its place.

    Raises:
        ValueError: the checkpoint and the model do not fit; nothing is changed.
    """
    made, orders = {}, {}
    for name in checkpoint.layers():
        try:
            linear = model.get_submodule(name)
        except AttributeError:
            linear = None
        if not isinstance(linear, nn.Linear):
            raise ValueError(f"tv.quantize: {checkpoint.place} has {name!r}, which is no nn.Linear "
                             f"of {type(model).__name__}")
        made[name] = _layer(name, linear, checkpoint, layout or checkpoint.layout, orders)
    if not made:
        raise ValueError(f"tv.quantize: {checkpoint.place} has no tensor named qweight: it is of "
                         "no known layout")
    others = {name: checkpoint[name] for name in checkpoint.others()}
    _check(model, made, others, checkpoint.place)
    for name, layer in made.items():
        owner, _, attribute = name.rpartition(".")
        if name:
            setattr(model.get_submodule(owner), attribute, layer)
    model = made.get("", model)
    known = set(model.state_dict())
    extra = sorted(set(others) - known - {_in(name, "bias") for name in made})
    if extra:
        warnings.warn(f"tv.quantize: {checkpoint.place} has tensors that {type(model).__name__} "
                      f"does not know: {', '.join(extra[:8])}{' …' if len(extra) > 8 else ''}",
                      stacklevel=4)
    wanted = {name: value for name, value in others.items() if name in known}
    if any(parameter.is_meta for parameter in model.parameters()):
        _assign(model, wanted)
    else:
        model.load_state_dict(wanted, strict=False)
    return model


def _assign(model: nn.Module, tensors: dict[str, torch.Tensor]) -> None:
    """Gives a model on meta its tensors; what was one tensor stays one."""
    before = model.state_dict(keep_vars=True)
    names: dict[int, list[str]] = {}
    for name, tensor in before.items():
        names.setdefault(id(tensor), []).append(name)
    model.load_state_dict(tensors, strict=False, assign=True)
    after = model.state_dict(keep_vars=True)
    for tied in names.values():
        given = next((name for name in tied if name in tensors), None)
        for name in tied if given else ():
            owner, _, attribute = name.rpartition(".")
            setattr(model.get_submodule(owner), attribute, after[given])


def _in(layer: str, tensor: str) -> str:
    return f"{layer}.{tensor}" if layer else tensor


def _check(model: nn.Module, made: dict, others: dict, place: str) -> None:
    """Raises ValueError where tensors are missing, of another shape, or would be lost."""
    tensors = model.state_dict(keep_vars=True)
    given = {id(tensors[name]) for name in others if name in tensors}  # a tied one has two names
    replaced = {_in(name, "weight") for name in made}
    biases = {_in(name, "bias") for name in made}
    missing = [name for name, tensor in tensors.items()
               if name not in others and name not in replaced and id(tensor) not in given]
    missing += [name for name, buffer in model.named_buffers(remove_duplicate=False)
                if buffer.is_meta and name not in tensors]  # which no checkpoint has
    if missing:
        raise ValueError(f"tv.quantize: {place} lacks {', '.join(missing[:8])}"
                         f"{' …' if len(missing) > 8 else ''}")
    seen: dict[int, torch.Tensor] = {}
    for name, value in others.items():
        if name in tensors:
            same = seen.setdefault(id(tensors[name]), value)
            if same is not value and not torch.equal(same, value):
                raise ValueError(f"tv.quantize: {place} has two values of {name!r}, which is one "
                                 "tensor with another")
        if name in replaced:
            raise ValueError(f"tv.quantize: {place} has {name!r} packed, and as it was, too")
        if name in tensors and tensors[name].shape != value.shape:
            raise ValueError(f"tv.quantize: {name!r} is {list(value.shape)} in {place}, want "
                             f"{list(tensors[name].shape)}")
        if name in biases and name not in tensors and value.any():
            raise ValueError(f"tv.quantize: {place} has {name!r}, but the model's layer has no "
                             "bias")


def _layer(name: str, linear: nn.Linear, checkpoint: Checkpoint, layout: str | None,
           orders: dict[bytes, torch.Tensor]) -> QuantizedLinear:
    """`orders`: those that other layers have; equal ones are one tensor, read once."""
    parts = {}
    for part in _PARTS:
        if _in(name, part) in checkpoint.files:
            parts[part] = checkpoint[_in(name, part)]
        elif part != "g_idx":
            raise ValueError(f"tv.quantize: {checkpoint.place} lacks {_in(name, part)!r}")
    rows, columns = linear.in_features, linear.out_features
    layout = layout or _layout(parts["qweight"], rows, columns)
    bits = _bits(name, parts["qweight"], rows, columns, layout)
    groups = max(parts["scales"].shape[0], 1) if parts["scales"].dim() == 2 else 1
    wanted = {"scales": [groups, columns], "qzeros": [groups, columns * bits // 32]}
    for part, shape in wanted.items():
        if list(parts[part].shape) != shape or rows % groups:
            raise ValueError(f"tv.quantize: {_in(name, part)!r} is {list(parts[part].shape)}, want "
                             f"{shape} for {rows} inputs in groups of one size")
    check_scale(_in(name, "scales"), parts["scales"])
    if parts["qzeros"].dtype != torch.int32:
        raise ValueError(f"tv.quantize: {_in(name, 'qzeros')!r} is {parts['qzeros'].dtype}, want "
                         "torch.int32")
    elements = _elements(parts["qweight"], bits, layout)
    zeros = _columns(parts["qzeros"], bits, layout)
    if layout == "gptq":
        zeros = zeros + 1
    device = linear.weight.device
    order = None
    if layout != "awq" and "g_idx" in parts:
        order = _order(name, parts["g_idx"], rows, groups)
    if order is not None:
        elements = elements[order]
        order = orders.setdefault(order.numpy().tobytes(), order)
    packed = _packed(elements, zeros, parts["scales"], bits)
    if device.type != "meta":
        packed = Packed(*(None if t is None else t.to(device)
                          for t in (packed.elements, packed.scale, packed.zero_point)))
        order = None if order is None else order.to(device)
    return QuantizedLinear(linear, _FORMS[bits], packed, order).train(linear.training)


def _layout(qweight: torch.Tensor, rows: int, columns: int) -> str:
    # Either a layer's outputs are packed in words, or its inputs.
    return "awq" if qweight.shape[0] == rows and qweight.shape[1] != columns else "gptq"


def _bits(name: str, qweight: torch.Tensor, rows: int, columns: int, layout: str) -> int:
    """Raises ValueError where the words are not those of the layer."""
    dim, size = (1, columns) if layout == "awq" else (0, rows)
    other = rows if layout == "awq" else columns
    words = qweight.shape[dim] if qweight.dim() == 2 else 0
    bits = words * 32 // size
    what = _in(name, "qweight")
    if qweight.dtype != torch.int32 or qweight.dim() != 2 or qweight.shape[1 - dim] != other or (
            bits * size != words * 32):
        raise ValueError(f"tv.quantize: {what!r} is {qweight.dtype}{list(qweight.shape)}, "
                         f"which is no weight of {rows} inputs and {columns} outputs in the layout "
                         f"{layout!r}")
    if bits not in ((4,) if layout == "awq" else _FORMS):
        raise ValueError(f"tv.quantize: {what!r} has weights of {bits} bits; of {layout!r} those "
                         f" of {'4' if layout == 'awq' else '4 and 8'} are known")
    return bits


def _unpacked(words: torch.Tensor, bits: int) -> torch.Tensor:
    """[..., 32 / bits] elements of int32 words, the lowest bits first."""
    shifts = torch.arange(0, 32, bits, dtype=torch.int32)
    return words.cpu().unsqueeze(-1) >> shifts & 2**bits - 1


def _columns(words: torch.Tensor, bits: int, layout: str) -> torch.Tensor:
    """[rows, columns] of words that each hold some columns."""
    elements = _unpacked(words, bits)
    if layout == "awq":
        elements = elements[..., [AWQ_ORDER.index(i) for i in range(len(AWQ_ORDER))]]
    return elements.flatten(1)


def _elements(qweight: torch.Tensor, bits: int, layout: str) -> torch.Tensor:
    """[in, out]."""
    if layout == "awq":
        return _columns(qweight, bits, layout)
    return _unpacked(qweight, bits).transpose(1, 2).flatten(0, 1)


def _order(name: str, g_idx: torch.Tensor, rows: int, groups: int) -> torch.Tensor | None:
    """The inputs sorted by their groups; None where they are sorted."""
    fits = g_idx.shape == (rows,) and not g_idx.is_floating_point()
    if fits:
        g_idx = g_idx.cpu().long()
        counts = torch.bincount(g_idx.clamp(0, groups), minlength=groups)
        fits = g_idx.min() >= 0 and not (counts != rows // groups).any()
    if not fits:
        raise ValueError(f"tv.quantize: {_in(name, 'g_idx')!r} does not give each of {groups} "
                         f"groups {rows // groups} of {rows} inputs")
    order = torch.argsort(g_idx, stable=True)
    return None if torch.equal(order, torch.arange(rows)) else order


def _packed(elements: torch.Tensor, zeros: torch.Tensor, scales: torch.Tensor, bits: int) -> Packed:
    """Of [in, out] and [groups, out], as QuantizedLinear has them."""
    elements = elements.t().to(torch.uint8)
    if bits == 4:
        pairs = elements.unflatten(1, (-1, 2))
        elements = pairs[..., 0] | pairs[..., 1] << 4
    zeros = zeros.t().contiguous()
    zeros = zeros.to(torch.uint8 if zeros.max() < 256 else torch.int16)
    return Packed(elements.contiguous(), scales.t().contiguous(), zeros)
