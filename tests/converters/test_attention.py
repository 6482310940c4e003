"""Scaled dot-product attention and its gradients."""

import warnings

import pytest
import torch
import torch.nn.functional as F

import torch_vulkan as tv
from torch_vulkan import compilations
from torch_vulkan._torch import kept_composites

from marks import slow_but, turns
from parity import FLOATS, check, check_against_double, check_gradients, tensor

pytestmark = pytest.mark.usefixtures("tactics_of")

sdpa = F.scaled_dot_product_attention


def heads(b, h, length, d, seed=0, dtype=torch.float32):
    return tensor(b, h, length, d, seed=seed, dtype=dtype)


def qkv(b=2, h=3, queries=29, keys=29, d=64, dtype=torch.float32):
    return (
        heads(b, h, queries, d, 0, dtype),
        heads(b, h, keys, d, 1, dtype),
        heads(b, h, keys, d, 2, dtype),
    )


@pytest.mark.parametrize(
    "queries,keys,d", [(29, 29, 64), (1, 41, 64), (37, 11, 16), (64, 128, 32), (5, 7, 11)]
)
def test_plain(queries, keys, d):
    check(sdpa, *qkv(queries=queries, keys=keys, d=d), length=d + keys)


@pytest.mark.parametrize("dtype", FLOATS)
def test_dtypes(dtype):
    if dtype == torch.float32:
        check(sdpa, *qkv(), length=93, double=True)
    else:  # probabilities are rounded before they meet the values
        check_against_double(sdpa, *qkv(dtype=dtype))


@pytest.mark.parametrize("queries,keys", [(29, 29), (7, 41), (41, 7)])
def test_causal(queries, keys):
    check(
        lambda q, k, v: sdpa(q, k, v, is_causal=True), *qkv(queries=queries, keys=keys), length=93
    )


def seen_by_place(length, queries, keys, window=0, padding=None):
    """A mask as transformers makes it for a cache that holds `length` tokens."""
    place = (torch.arange(queries) + length)[None, None, :, None]
    key = torch.arange(keys)[None, None, None, :]
    seen = key.new_ones((), dtype=torch.bool)
    if window:
        seen = seen & (key > place - window)
    seen = seen & (key <= place)
    if padding is not None:
        seen = seen & padding[:, None, None, :]
    return seen.expand(2, -1, queries, keys)


PLACES = [(1, 300, 64), (1, 70, 12), (3, 130, 16), (29, 41, 64), (70, 133, 32)]


@turns(4, each=("window", "tactics_of"))
@pytest.mark.parametrize("dtype", slow_but((torch.float32,), FLOATS))
@pytest.mark.parametrize("queries,keys,d", PLACES)
@pytest.mark.parametrize("window", [0, 1, 20])
def test_places(queries, keys, d, window, dtype):
    """Windows and causal masks, wherever the cache ends; heads in groups."""
    def attention(q, k, v, length):
        return sdpa(q, k, v, seen_by_place(length, queries, keys, window), enable_gqa=True)

    q, k, v = heads(2, 4, queries, d, 0, dtype), heads(2, 2, keys, d, 1, dtype), (
        heads(2, 2, keys, d, 2, dtype))
    first, *more = ((q, k, v, torch.tensor(length))
                    for length in (0, 1, keys // 2, keys - queries, keys - 1, keys + 7))
    if dtype == torch.float32:
        check(attention, *first, more=more, length=d + keys)
    else:
        check_against_double(attention, *more[1])


@turns(2, each=("tactics_of",))
@pytest.mark.parametrize("window", [0, 20])
def test_places_and_padding(window):
    def attention(q, k, v, length, padding):
        return sdpa(q, k, v, seen_by_place(length, q.shape[2], k.shape[2], window, padding))

    padding = torch.arange(60) >= torch.tensor([[0], [13]])
    for queries, lengths in ((1, (40, 0)), (9, (25, 3))):
        q, k, v = qkv(queries=queries, keys=60)
        first, *more = ((q, k, v, torch.tensor(length), padding) for length in lengths)
        check(attention, *first, more=more, length=124)


@turns(3, each=("tactics_of",))
@pytest.mark.parametrize("length", [-3, -1 << 40, (1 << 31) - 1, 1 << 31, 1 << 40])
def test_places_far_away(length):
    """No query of the first ones sees anything, or each sees all."""
    def attention(q, k, v, length):
        return sdpa(q, k, v, seen_by_place(length, q.shape[2], k.shape[2]))

    for queries in (1, 5):
        check(attention, *qkv(queries=queries, keys=60), torch.tensor(length), length=124)


def with_the_least_number(dtype):
    """Attention as transformers' eager form has it: what a mask hides has the least score."""
    def attention(q, k, v, seen):
        mask = torch.where(seen, torch.tensor(0.0, dtype=dtype), torch.finfo(dtype).min)
        scores = q @ k.mT * 0.25 + mask[:, :, :, :k.shape[2]]
        return torch.softmax(scores, -1, dtype=torch.float32).to(q.dtype) @ v

    return attention


@turns(2)
def test_rows_of_padding_and_the_least_number():
    attention = with_the_least_number(torch.float32)

    def padded(q, k, v, length, padding):
        return attention(q, k, v, seen_by_place(length, q.shape[2], k.shape[2], 0, padding))

    padding = torch.arange(60) >= torch.tensor([[0], [13]])
    padding[1, :] &= torch.arange(60) >= 50  # rows of the second text see nothing
    for queries, length in ((1, 40), (9, 25)):
        check(padded, *qkv(queries=queries, keys=60), torch.tensor(length), padding, length=124)


def least_by_place(length, queries, keys, window):
    """As transformers' eager attention has masks: the least number is added to what is hidden."""
    seen = seen_by_place(length, queries, keys, window)
    return torch.where(seen, torch.zeros(()), torch.finfo(torch.float32).min)


def capped(q, k, v, mask):
    """Gemma 2's."""
    scores = 5 * torch.tanh(q @ k.mT * 0.25 / 5) + mask
    return torch.softmax(scores, -1, dtype=torch.float32) @ v


LEAST = {"sdpa": lambda q, k, v, mask: sdpa(q, k, v, mask), "capped": capped}


@turns(7, each=("form", "window", "tactics_of"))
@pytest.mark.parametrize("window", [0, 1, 20])
@pytest.mark.parametrize("queries,keys,d", PLACES)
@pytest.mark.parametrize("form", LEAST)
def test_places_and_the_least_number(form, queries, keys, d, window):
    def attention(q, k, v, length):
        return LEAST[form](q, k, v, least_by_place(length, queries, keys, window))

    tensors = qkv(queries=queries, keys=keys, d=d)
    first, *more = ((*tensors, torch.tensor(length))
                    for length in (0, 1, (keys - queries) // 2, keys - queries))
    check(attention, *first, more=more, length=d + keys)


@turns(3, each=("form", "tactics_of"))
@pytest.mark.parametrize("window", [0, 9])
@pytest.mark.parametrize("queries", [1, 5])
@pytest.mark.parametrize("form", LEAST)
def test_queries_beside_the_keys_and_the_least_number(form, window, queries, request):
    """Some see nothing, and take all keys alike, which a GPU's engine leaves to PyTorch."""
    def attention(q, k, v, length):
        return LEAST[form](q, k, v, least_by_place(length, queries, 60, window))

    tensors = qkv(queries=queries, keys=60)
    first, *more = ((*tensors, torch.tensor(length)) for length in (7, -3, -70, 58, 80))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check(attention, *first, more=more, length=124)
    said = any("runs natively: [check_indices]" in str(w.message) for w in caught)
    on_gpu = request.node.callspec.params["tactics_of"] == "gpu" or tv.devices()[0].type != "cpu"
    assert said == on_gpu


@turns(3, each=("form", "tactics_of"))
@pytest.mark.parametrize("form", ["bool", "infinity", "least"])
@pytest.mark.parametrize("queries", [1, 9])
def test_masks_from_outside(form, queries):
    """As `generate` hands them over, of a whole cache: rows that see a part, all, or nothing."""
    seen = seen_by_place(40, queries, 500)
    seen = seen & (torch.arange(500) >= torch.tensor([0, 13])[:, None, None, None])
    seen[1, :, -1] = False
    q, k, v = qkv(queries=queries, keys=500)
    if form == "bool":
        check(lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), q, k, v, seen, length=564)
        return
    hidden = float("-inf") if form == "infinity" else torch.finfo(torch.float32).min
    mask = torch.zeros(seen.shape).masked_fill(~seen, hidden)
    check(lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), q, k, v, mask, length=564)
    if form == "least":
        check(lambda q, k, v, m: torch.softmax(q @ k.mT + m, -1) @ v, q, k, v, mask, length=564)


@turns(3, each=("dtype", "shape", "tactics_of"))
@pytest.mark.parametrize("shape", [(29, 29), (2, 1, 1, 29), (2, 3, 29, 29), (1, 3, 29, 1)])
@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
def test_masks(shape, dtype):
    mask = tensor(*shape, dtype=dtype, seed=3)
    if dtype == torch.bool:
        mask[..., 0] = True
    check(lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), *qkv(), mask, length=93)


@pytest.mark.parametrize("additive", [False, True])
def test_a_fully_masked_row_is_zero(additive):
    mask = tensor(29, 29, dtype=torch.bool, seed=3)
    mask[5] = False
    if additive:
        mask = torch.zeros(29, 29).masked_fill(~mask, float("-inf"))
    check(lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), *qkv(), mask, length=93)


def test_scale():
    check(lambda q, k, v: sdpa(q, k, v, scale=0.3), *qkv(), length=93)


def test_grouped_queries():
    q, k, v = heads(2, 6, 29, 64), heads(2, 2, 29, 64, 1), heads(2, 2, 29, 64, 2)
    check(lambda q, k, v: sdpa(q, k, v, enable_gqa=True), q, k, v, length=93)


# Few queries: keys are shared out over workgroups, and heads that share keys are rows of one.
FEW = {
    "one head, few keys": ((2, 3, 1, 64), (2, 3, 41, 64)),
    "groups": ((2, 6, 1, 64), (2, 2, 300, 64)),
    "one head of keys": ((2, 5, 1, 32), (2, 1, 500, 32)),
    "more rows than a workgroup has": ((1, 20, 2, 16), (1, 1, 130, 16)),
    "heads of an odd size": ((1, 4, 3, 11), (1, 2, 200, 11)),
    "wide heads": ((1, 4, 1, 256), (1, 1, 130, 256)),
    "no heads": ((1, 40), (700, 40)),
}


@turns(5, each=("name", "mask", "tactics_of"))
@pytest.mark.parametrize("mask", [None, "bool", "added"])
@pytest.mark.parametrize("name", FEW)
def test_few_queries(name, mask):
    query, key = FEW[name]
    q, k, v = tensor(*query), tensor(*key, seed=1), tensor(*key, seed=2)
    masks = []
    if mask:  # the used part of a cache, behind padding
        seen = torch.zeros(*query[:-2], query[-2], key[-2], dtype=torch.bool)
        seen[..., 5:key[-2] // 3] = True
        masks = [seen if mask == "bool" else torch.zeros(seen.shape).masked_fill(
            ~seen, float("-inf")) + tensor(*seen.shape, seed=3)]
    grouped = {"enable_gqa": True} if len(query) > 2 else {}
    check(lambda q, k, v, m=None: sdpa(q, k, v, attn_mask=m, **grouped), q, k, v, *masks,
          length=key[-1] + key[-2])


@pytest.mark.parametrize("queries", [1, 29])
def test_capped_scores(queries, request):
    def capped(q, k, v, mask):
        k, v = (x[:, :, None].expand(2, 2, 3, -1, 64).reshape(2, 6, -1, 64) for x in (k, v))
        scores = torch.matmul(q, k.transpose(2, 3)) * 0.7 / 1.5
        return torch.matmul(torch.softmax(scores.tanh() * 1.5 + mask, -1), v)

    q, k, v = heads(2, 6, queries, 64), heads(2, 2, 83, 64, 1), heads(2, 2, 83, 64, 2)
    check(capped, q, k, v, tensor(queries, 83, seed=3), length=64 + 83)
    (engine,) = compilations.compilations()[0].engines
    if request.node.callspec.params["tactics_of"] == "gpu":
        assert engine.dispatches <= 2, "the pieces were not recognised"


def test_few_queries_of_a_cache_that_grows():
    def step(q, k, v):
        return sdpa(q, k, v, enable_gqa=True)

    fast = torch.compile(step, backend="vulkan", dynamic=True, options={"min_block_size": 1})
    for keys in (5, 64, 65, 700):
        q, k, v = heads(1, 4, 1, 64), heads(1, 2, keys, 64, 1), heads(1, 2, keys, 64, 2)
        torch.testing.assert_close(fast(q, k, v), step(q, k, v), rtol=1e-5, atol=1e-5)


def test_keys_that_a_mask_hides_are_not_read(request):
    if request.node.callspec.id == "device" and tv.devices()[0].type == "cpu":
        pytest.skip("a CPU multiplies with all keys")
    q, k, v = qkv(queries=1, keys=512)
    seen = torch.zeros(1, 512, dtype=torch.bool)
    seen[:, :70] = True
    want = sdpa(q, k[..., :70, :], v[..., :70, :])
    k[..., 128:, :], v[..., 128:, :] = float("nan"), float("nan")
    fast = torch.compile(lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), backend="vulkan",
                         options={"min_block_size": 1})
    torch.testing.assert_close(fast(q, k, v, seen), want)


def test_values_of_another_size():
    check(sdpa, heads(1, 2, 29, 32), heads(1, 2, 37, 32, 1), heads(1, 2, 37, 16, 2), length=93)


def test_projected_heads():
    def attention(x):
        q, k, v = (t.view(2, 37, 4, 64).transpose(1, 2) for t in x.split(256, dim=-1))
        return sdpa(q, k, v, is_causal=True).transpose(1, 2).reshape(2, 37, 256)

    check(attention, tensor(2, 37, 768), length=101)


def test_log_sum_exp():
    def both(q, k, v):
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, is_causal=True)

    check(both, *qkv(), length=93)


def test_log_sum_exp_that_the_engine_itself_reads():
    def doubled(q, k, v):
        out, sums = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)
        return out, sums * 2

    check(doubled, *qkv(), length=93)


@turns(2)
def test_dynamic_lengths():
    check(
        sdpa,
        *qkv(),
        length=93,
        dynamic=True,
        more=[qkv(b=3, queries=41, keys=41), qkv(queries=7, keys=7)],
    )


@pytest.mark.parametrize("causal", [False, True])
def test_gradients(causal):
    check_gradients(lambda q, k, v: sdpa(q, k, v, is_causal=causal), *qkv(), length=200)


def test_gradients_with_mask():
    mask = tensor(29, 29, dtype=torch.bool, seed=3)
    mask[:, 0] = True
    check_gradients(lambda q, k, v: sdpa(q, k, v, attn_mask=mask), *qkv(), length=200)


@pytest.mark.parametrize("seed", range(3))
def test_gradients_of_large_scores(seed):
    """The pass computes the scores again: where these are other numbers than those whose sum's log
    it is given, the probabilities are wrong by as much as scores were rounded."""
    generator = torch.Generator().manual_seed(seed)
    shapes = (4, 4, 3, 8), (4, 4, 6, 8), (4, 4, 6, 8)
    q, k, v = (18 * torch.rand(shape, generator=generator) - 9 for shape in shapes)

    def of_value(value):
        like = value.dtype
        return sdpa(q.to(like), k.to(like), value)

    check_gradients(of_value, v, length=8, double=True)


@pytest.fixture
def kept(monkeypatch):
    """Attention that is traced whole, as it is where tensors are on a GPU."""
    monkeypatch.setattr(kept_composites, "_keeps_attention", lambda query: True)


@pytest.mark.parametrize("arguments", [{}, {"is_causal": True}, {"scale": 0.3}])
@pytest.mark.parametrize("rank", slow_but((3,), [3, 4]))
def test_kept_whole(kept, arguments, rank):
    operands = [t[0] for t in qkv()] if rank == 3 else qkv()
    check(lambda q, k, v: sdpa(q, k, v, **arguments), *operands, length=93)


def test_kept_whole_of_shared_heads_and_masks(kept):
    q, k, v = heads(2, 4, 29, 64), heads(2, 2, 29, 64, 1), heads(2, 2, 29, 64, 2)
    check(lambda q, k, v: sdpa(q, k, v, enable_gqa=True), q, k, v, length=93)
    mask = tensor(2, 1, 29, 29, dtype=torch.bool, seed=3)
    mask[..., 0] = True
    check(lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), *qkv(), mask, length=93)


@turns(2)
def test_kept_whole_is_one_operator_engine_or_not(kept):
    def attention(x):
        q, k, v = (t.view(2, 37, 4, 64).transpose(1, 2) for t in x.split(256, dim=-1))
        return sdpa(q, k, v).transpose(1, 2).reshape(2, 37, 256)

    class Attention(torch.nn.Module):
        def forward(self, x):
            return attention(x)

    x, name = tensor(2, 37, 768), "torch_vulkan::scaled_dot_product_attention"
    for executed in ([], [name]):
        compilations.clear()
        torch._dynamo.reset()
        options = {"min_block_size": 1, "torch_executed_ops": executed}
        with torch.no_grad():
            fast = torch.compile(attention, backend="vulkan", options=options)
            torch.testing.assert_close(fast(x), attention(x))
        (record,) = compilations.compilations()
        assert record.compute_nodes == 1
        assert [n.op for n in record.native if "attention" in n.op] == executed
    program = tv.compile(Attention(), [x], min_block_size=1)
    assert [set(e.info()["layers"][0]["ops"]) for e in tv.engines(program)] == [{name}]
    program = tv.compile(Attention(), [x], torch_executed_ops=[name], min_block_size=1)
    assert not tv.engines(program)
    torch.testing.assert_close(program(x), attention(x))
    assert "torch_vulkan" not in str(program.exported_program().graph)
    check_gradients(sdpa, *qkv(), length=200)  # for which PyTorch takes it apart


@turns(3, each=("dtype", "tactics_of"))
@pytest.mark.parametrize("dtype", FLOATS)
def test_written_as_its_pieces(dtype):
    """As models did before PyTorch had the operator; a row of hidden keys is not a number."""
    mask = tensor(2, 1, 29, 29, seed=3)
    if dtype == torch.float32:
        mask[1, 0, 4] = -torch.inf

    def pieces(q, k, v, m):
        scores = q @ k.transpose(-2, -1) / 8 + m
        return scores.softmax(-1) @ v

    arguments = (*qkv(dtype=dtype), mask.to(dtype))
    if dtype == torch.float32:
        check(pieces, *arguments, length=93)
    else:
        check_against_double(pieces, *arguments)


def rotated(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


@turns(3, each=("dtype", "tactics_of"))
@pytest.mark.parametrize("dtype", FLOATS)
def test_rotary_embeddings(dtype):
    angles = tensor(1, 1, 7, 22)
    cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
    q, k = heads(2, 3, 7, 22, 0, dtype), heads(2, 1, 7, 22, 1, dtype)

    def pair(q, k, cos, sin):
        return rotated(q.transpose(1, 2), cos.transpose(1, 2), sin.transpose(1, 2)), rotated(
            k, cos, sin)

    if dtype == torch.float32:
        fast = torch.compile(pair, backend="vulkan", options={"min_block_size": 1})
        for got, want in zip(fast(q, k, cos, sin), pair(q, k, cos, sin), strict=True):
            assert torch.equal(got, want)
        check(rotated, q, cos, sin)
    else:  # one rounding in place of three
        for i in (0, 1):
            check_against_double(lambda *args, i=i: pair(*args)[i], q, k, cos, sin)
        check_against_double(rotated, q, cos, sin)
