"""The ranks of one run: each process with its share of every minibatch, together one learner.

rollout of each rank's environments -> **shares of a minibatch** -> one gradient -> the same step
everywhere. Rank 0 writes what is written; the others hand it what only they know.
"""

from __future__ import annotations

import json
import os
import random
import socket
import sys
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as tensors_to_bytes
from torch import Tensor, nn

from reprl.distributed.environment import Place, own_device, place
from reprl.distributed.exchange import (
    PATIENCE,
    STARTING,
    Collective,
    Exchange,
    RankLost,
    SharedMemory,
    answered,
    ordered,
    silent,
)
from reprl.distributed.pulse import Pulse
from reprl.errors import UserError
from reprl.rng import stream_seed

if TYPE_CHECKING:
    from reprl.algorithms.base import Algorithm
    from reprl.config.schema import Config

JOINING = timedelta(seconds=60)  # until all ranks have come


class Agreement(NamedTuple):
    """What the ranks do after an update."""

    save: bool
    signal: int  # 0 where none came
    pending: bool  # rank 0's validation was cut off by it


class Private(NamedTuple):
    """What a checkpoint holds of one rank besides rank 0: all that the ranks do not share."""

    state: dict[str, Tensor]
    meta: dict[str, Any]


class OneRank:
    """A run in one process."""

    rank = 0
    size = 1

    def agree(self, save: bool, signal: int, pending: bool) -> Agreement:
        return Agreement(save, signal, pending)

    def episodes(self, totals: tuple[float, float, float]) -> tuple[float, float, float]:
        """Number, summed score and summed length of the last games of all ranks."""
        return totals

    def collect(self, model: Algorithm) -> list[Private]:
        """The private state of the other ranks, at rank 0."""
        return []

    def told(self, number: int) -> int:
        """What rank 0 says."""
        return number

    def most(self, number: float) -> float:
        """The largest number of any rank."""
        return number

    def meet(self) -> None:
        """Wait for all, however long it takes."""

    def explained(self, loss: RankLost) -> str:
        """Why the ranks have lost each other; under torchrun a rank that hangs here is ended."""
        return str(loss)

    def name_folder(self, path: str) -> None:
        """Tell the launcher where the run is written."""


class Ranks(OneRank):
    """This process among the others, after all have come."""

    def __init__(self, at: Place, *, device: str = "cpu") -> None:
        self.rank, self.size, self.place = at.rank, at.size, at
        self.exchange: Exchange
        backend = "gloo"
        if device.startswith("cuda"):
            backend = "cpu:gloo,cuda:nccl"
            torch.cuda.set_device(own_device(device))
        store = self._store(at)
        try:
            dist.init_process_group(
                backend,
                store=dist.PrefixStore("reprl", store),
                rank=at.rank,
                world_size=at.size,
                timeout=timedelta(seconds=PATIENCE),
            )
        except RuntimeError as error:
            reason = (str(error).strip().splitlines() or ["no reason given"])[0]
            raise UserError(
                f"rank {at.rank} of {at.size} did not find the others at {at.address}:{at.port} "
                f"within {JOINING.seconds} s ({reason[:120]})."
            ) from error
        self.pulse: Pulse | None = None
        if at.beat is None:  # torchrun has started us: no launcher listens for signs of life
            self.pulse = Pulse(at.rank, at.size, dist.PrefixStore("pulse", store))
            self.pulse.start()
        self.exchange = Collective(at.rank, at.size, dist.PrefixStore("meet", store), self.pulse)

    @staticmethod
    def _store(at: Place) -> dist.Store:
        try:
            if at.listen is not None:
                return dist.TCPStore(
                    at.address,
                    at.port,
                    at.size,
                    at.rank == 0,
                    timeout=JOINING,
                    wait_for_workers=False,
                    master_listen_fd=at.listen if at.rank == 0 else None,
                )
            if at.rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
                require_free(at.port)
            store, _, _ = next(iter(dist.rendezvous("env://", timeout=JOINING)))
            return store
        except RuntimeError as error:
            reason = (str(error).strip().splitlines() or ["no reason given"])[0]
            raise UserError(
                f"rank {at.rank} cannot reach rank 0 at MASTER_ADDR={at.address}, "
                f"MASTER_PORT={at.port} ({reason[:120]})."
            ) from error

    # -- the learner --------------------------------------------------------------------------

    def require_same(self, config: Config) -> None:
        """Refuse ranks that were started with other settings than rank 0."""
        ours = int(config.hash[:12], 16)
        found = self.exchange.gather(np.array([float(ours)]))[:, 0].astype(np.int64).tolist()
        if len(set(found)) > 1:
            odd = next(r for r, value in enumerate(found) if value != found[0])
            raise UserError(
                f"the ranks disagree on the configuration (rank 0 has {found[0]:012x}, rank {odd} "
                f"{found[odd]:012x}): start them with the same command and the same files."
            )

    def attach(self, model: Algorithm, seed: int | None) -> None:
        """Make a model, built alike by all ranks, one that trains with the others.

        With a seed it draws its own numbers from here on; a restored one has its streams.
        """
        parameters = [p for module in model.modules().values() for p in module.parameters()]
        on_gpu = any(p.is_cuda for p in parameters)  # whose gradients NCCL adds up where they are
        if self.place.memory is not None and ordered() and not on_gpu:
            numbers = sum(p.numel() + 1 for p in parameters)
            if self.rank == 0:
                self._map(numbers, create=True)
            self.exchange.gather(np.zeros(1), patient=True)  # the memory is there
            shared = self._map(numbers, create=False)
            self.exchange.gather(np.zeros(1))  # nobody is still asking over the network
            self.exchange = shared
        model.share(AcrossRanks(self))
        if self.rank and seed is not None:
            model.diverge(seed, "rank", self.rank)
            drawn = stream_seed(seed, "rank", self.rank)
            torch.manual_seed(drawn)
            np.random.seed(drawn % 2**32)  # SB3 draws minibatches from it
            random.seed(drawn)

    def _map(self, numbers: int, *, create: bool) -> SharedMemory:
        assert self.place.memory is not None
        return SharedMemory(self.rank, self.size, self.place.memory, numbers, create=create)

    def require_equal(self, model: Algorithm) -> None:
        """Refuse to begin with parameters that are not the same everywhere."""
        sums = [p.detach().double().sum().item() for p in model.policy.parameters()]
        found = self.exchange.gather(np.array([sum(sums)]), patient=True)
        if len(np.unique(found)) > 1:
            raise UserError("the ranks begin with different networks: start them all anew.")

    # -- around the updates -------------------------------------------------------------------

    def agree(self, save: bool, signal: int, pending: bool) -> Agreement:
        """One decision for all; waits as long as rank 0 plays its validation games."""
        found = self.exchange.gather(np.array([save, signal, pending], float), patient=True)
        self.exchange.patience = PATIENCE  # what is compiled has been compiled now
        flags = found.max(axis=0)
        return Agreement(bool(flags[0]), int(flags[1]), bool(flags[2]))

    def episodes(self, totals: tuple[float, float, float]) -> tuple[float, float, float]:
        number, scores, lengths = self.exchange.gather(np.array(totals)).sum(axis=0)
        return float(number), float(scores), float(lengths)

    def told(self, number: int) -> int:
        found = self.exchange.gather(np.array([float(number)]), patient=True)
        return int(found[0, 0])

    def most(self, number: float) -> float:
        return float(self.exchange.gather(np.array([number]), patient=True).max())

    def meet(self) -> None:
        self.exchange.gather(np.zeros(1), patient=True)

    def collect(self, model: Algorithm) -> list[Private]:
        if self.rank == 0:
            sizes = self.exchange.gather(np.zeros(1), patient=True)[:, 0]
            return [unpacked(_received(r, int(sizes[r]))) for r in range(1, self.size)]
        data = torch.frombuffer(bytearray(packed(private(model))), dtype=torch.uint8)
        self.exchange.gather(np.array([float(len(data))]), patient=True)
        with answered():
            dist.send(data, dst=0)
        return []

    def explained(self, loss: RankLost) -> str:
        hung = None if self.pulse is None else self.pulse.end_hung()
        return str(loss) if hung is None else silent(hung)

    def name_folder(self, path: str) -> None:
        if self.place.beat is not None:
            with suppress(OSError):
                os.write(self.place.beat, f"folder {os.path.abspath(path)}\n".encode())


def leave(code: int) -> int:
    """A process's exit code; a rank ends here and now, not when gloo has said its farewells."""
    if dist.is_initialized():
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    return code


def join(config: Config) -> OneRank:
    """This process's place among the ranks of its run."""
    at = place()
    if at is None or at.size == 1:
        if config.ranks > 1:
            raise UserError(
                f"ranks={config.ranks} are processes that the commands reprl train and reprl "
                "resume start, or torchrun: use one of them, or set ranks=1."
            )
        return OneRank()
    ranks = Ranks(at, device=config.device)
    ranks.require_same(config)
    return ranks


def require_free(port: int) -> None:
    """Refuse a port that another program listens on."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            raise UserError(
                f"MASTER_PORT={port} cannot be used: {error.strerror}; choose another port."
            ) from None


class AcrossRanks:
    """The `Reduction` of a run with several ranks."""

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self.size = ranks.size

    def moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        own = x.detach().double().cpu().numpy()
        mean = float(own.mean()) if len(own) else 0.0
        spread = float(((own - mean) ** 2).sum())
        counts, means, spreads = self._gather(np.array([len(own), mean, spread])).T
        whole = (counts * means).sum() / counts.sum()
        squares = spreads.sum() + (counts * (means - whole) ** 2).sum()
        deviation = np.sqrt(squares / max(counts.sum() - 1, 1))
        return x.new_tensor(whole), x.new_tensor(deviation)

    def numbers(self, values: Tensor) -> Tensor:
        return torch.from_numpy(self._gather(values.detach().double().cpu().numpy()).mean(axis=0))

    def total(self, values: Tensor) -> Tensor:
        found = self._gather(values.detach().double().cpu().numpy()).sum(axis=0)
        return torch.from_numpy(found).to(values)

    def rows(self, values: np.ndarray) -> np.ndarray:
        return self.gathered(torch.from_numpy(values.flatten())).numpy()

    def gathered(self, x: Tensor) -> Tensor:
        ours = x.detach().contiguous()
        plain = ours.to(torch.uint8) if ours.dtype == torch.bool else ours
        found = [torch.empty_like(plain) for _ in range(self.size)]
        with answered():
            dist.all_gather(found, plain)
        return torch.cat(found).to(ours.dtype)

    def candidates(self, keys: Tensor) -> tuple[Tensor, int]:
        counts = [int(n) for n in self._gather(np.array([float(keys.shape[-2])]))[:, 0]]
        every: Tensor = _Gather.apply(keys, counts, self.ranks.rank)  # type: ignore[no-untyped-call]
        return every, sum(counts[: self.ranks.rank])

    def gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """In one bucket; a parameter that only some ranks have a gradient for counts as 0 there."""
        learned = [p for p in parameters if p.requires_grad]
        parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in learned]
        has = parts[0].new_tensor([p.grad is not None for p in learned])
        self.ranks.exchange.add([*parts, has])
        torch._foreach_mul_(parts, 1.0 / self.size)
        for parameter, part, some in zip(learned, parts, has.tolist(), strict=True):
            if some and parameter.grad is None:
                parameter.grad = part

    def _gather(self, values: np.ndarray) -> np.ndarray:
        return self.ranks.exchange.gather(values)


class _Gather(torch.autograd.Function):
    """Keys (..., B, D) of all ranks, (..., N, D); the gradient of each goes back to its rank."""

    @staticmethod
    def forward(ctx: Any, keys: Tensor, counts: list[int], rank: int) -> Tensor:
        ctx.counts, ctx.rank = counts, rank
        padded = keys.new_zeros(*keys.shape[:-2], max(counts), keys.shape[-1])
        padded[..., : keys.shape[-2], :] = keys
        found = [torch.empty_like(padded) for _ in counts]
        with answered():
            dist.all_gather(found, padded)
        return torch.cat([f[..., :n, :] for f, n in zip(found, counts, strict=True)], dim=-2)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        total = gradients[0].contiguous().clone()
        with answered():
            dist.all_reduce(total)
        first = sum(ctx.counts[: ctx.rank])
        return total[..., first : first + ctx.counts[ctx.rank], :], None, None


# -- what only this rank knows ------------------------------------------------------------------

OWN = ("last_order", "episodes", "successes")  # of a capture's meta


def private(model: Algorithm) -> Private:
    """What a checkpoint must hold of this rank besides what rank 0 saves."""
    captured = model.capture()
    state = captured.state | {f"buffer.{k}": v for k, v in model.own_buffers().items()}
    return Private(state, {k: captured.meta[k] for k in OWN if k in captured.meta})


def packed(part: Private) -> bytes:
    """As bytes without pickle: other machines send these."""
    meta = json.dumps(part.meta).encode()
    tensors = tensors_to_bytes({k: t.detach().cpu().contiguous() for k, t in part.state.items()})
    return len(meta).to_bytes(8, "little") + meta + tensors


def unpacked(data: bytes) -> Private:
    end = 8 + int.from_bytes(data[:8], "little")
    return Private(tensors_from_bytes(data[end:]), json.loads(data[8:end]))


def _received(rank: int, size: int) -> bytes:
    buffer = torch.empty(size, dtype=torch.uint8)
    with answered():
        dist.recv(buffer, src=rank)
    return buffer.numpy().tobytes()


__all__ = ["STARTING", "Agreement", "OneRank", "Private", "Ranks", "join", "private"]
