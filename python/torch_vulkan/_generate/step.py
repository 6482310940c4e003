"""The step of a generation: a forward call and the choice of the next token, compiled as one."""

import types
from collections.abc import Callable
from dataclasses import dataclass, fields

import torch

from .._torch import philox
from .request import Request


@dataclass(frozen=True)
class Choice:
    """How a token is chosen from the scores of all; a part of the compiled step."""

    draws: str  # what makes random numbers; "": the most likely token is taken
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    bans: bool  # whether some token cannot follow some texts

    @classmethod
    def of(cls, request: Request, draws: str) -> "Choice":
        if not request.do_sample:
            return cls("", 1.0, 0, 1.0, 0.0, request.repetition_penalty, request.bans())
        return cls(draws, request.temperature, request.top_k, request.top_p, request.min_p,
                   request.repetition_penalty, request.bans())

    def processors(self):
        """transformers' own, in the order in which its generate applies them; the repetition
        penalty, which comes first, is `penalised`, and banned tokens come next."""
        from transformers.generation import logits_process as process

        found = []
        if self.temperature != 1.0:
            found.append(process.TemperatureLogitsWarper(self.temperature))
        if self.top_k:
            found.append(process.TopKLogitsWarper(top_k=self.top_k))
        if self.top_p < 1.0:
            found.append(process.TopPLogitsWarper(top_p=self.top_p))
        if self.min_p:
            found.append(process.MinPLogitsWarper(min_p=self.min_p))
        return found

    def penalised(self, scores: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        """As RepetitionPenaltyLogitsProcessor, of a mask of tokens in place of a growing list."""
        lower = torch.where(scores < 0, scores * self.repetition_penalty,
                            scores / self.repetition_penalty)
        return torch.where(seen, lower, scores)


def step_of(choice: Choice) -> Callable:
    """What is compiled: a forward call, the choice of the next tokens, and all that the next call
    reads, left in the tensors of `state`."""
    processors = choice.processors()

    def step(model, ids, arguments, state):
        scores = model(input_ids=ids, **arguments).logits[:, -1].float()
        if state.seen is not None:
            scores = choice.penalised(scores, state.seen)
        if state.until is not None:
            scores = torch.where(state.length < state.until, -torch.inf, scores)
        for processor in processors:
            scores = processor(None, scores)
        if choice.draws:  # torch.multinomial draws one token in this way
            noise = state.noise if choice.draws == "torch" else _noise(state, *scores.shape)
            scores = scores.softmax(-1) / noise
        tokens = scores.argmax(-1)
        if state.ends is not None:
            tokens = torch.where(state.running, tokens, state.pad)
            state.running.logical_and_((tokens[:, None] != state.ends).all(-1))
        if state.seen is not None:
            state.seen.scatter_(1, tokens[:, None], True)
        if "position_ids" in arguments and ids is state.tokens:
            state.positions.add_(1)
        state.tokens.copy_(tokens[:, None])
        state.text.index_copy_(1, state.length, tokens[:, None])
        state.length.add_(1)

    # Code of its own, because PyTorch counts recompilations by code.
    return types.FunctionType(step.__code__.replace(), step.__globals__, "step", None,
                              step.__closure__)


def _noise(state, batch: int, vocabulary: int) -> torch.Tensor:
    """Draws of the exponential distribution, [batch, vocabulary], for the token behind `length`."""
    device = state.length.device
    token = torch.arange(vocabulary, device=device)
    row = torch.arange(batch, device=device)[:, None]
    drawn, *_ = philox.words((token, row, state.length, 0), (state.key[0], state.key[1]))
    return philox.exponential(drawn)


@dataclass
class State:
    """Tensors that a step reads and leaves for the next one."""

    text: torch.Tensor  # [batch, room], the prompt and what was added
    length: torch.Tensor  # [1], of the text
    tokens: torch.Tensor  # [batch, 1], chosen last
    positions: torch.Tensor | None  # [batch, 1], of the next call; None: the model counts
    running: torch.Tensor  # [batch], false where a sequence has ended
    ends: torch.Tensor | None
    pad: int
    seen: torch.Tensor | None  # [batch, vocabulary], for the repetition penalty
    until: torch.Tensor | None  # [vocabulary], the length of the texts that each may follow
    noise: torch.Tensor | None  # [batch, vocabulary], for sampling with PyTorch's generator
    key: torch.Tensor | None  # [2], for sampling by the step: the words of the seed

    def copied(self) -> "State":
        """Tensors of its own, with the same contents."""
        return State(*(value.clone() if isinstance(value, torch.Tensor) else value
                       for value in (getattr(self, field.name) for field in fields(self))))
