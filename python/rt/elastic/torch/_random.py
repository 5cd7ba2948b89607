"""The state of the random number generators of every rank, as a part of a checkpoint."""

from __future__ import annotations

import base64
import json
import random
import sys
from typing import IO, Any, Optional

import torch

from rt.elastic import checkpoint, collective, env


class RandomStates(checkpoint.State):
    """Python's generator, numpy's if it is imported, and PyTorch's for the cpu and the gpu."""

    def __init__(self) -> None:
        super().__init__("adaptdl-random")
        self._saved: list[dict[str, Any]] = []
        self._restored: Optional[dict[str, Any]] = None
        checkpoint.load_state(self)

    def sync(self) -> None:
        """Collects the states of all ranks."""
        self._saved = collective.gather(_current())

    def save(self, fileobj: IO[bytes]) -> None:
        """Writes the states by rank."""
        fileobj.write(json.dumps(self._saved).encode())

    def load(self, fileobj: IO[bytes]) -> None:
        """Reads the states. With another number of ranks, ranks begin anew from rank 0's."""
        saved, rank = json.loads(fileobj.read()), env.replica_rank()
        if len(saved) == env.num_replicas():
            self._restored = saved[rank]
        elif saved:
            self._restored = saved[0] if rank == 0 else {"after": saved[0]["torch"], "rank": rank}

    def restore(self) -> None:
        """Continues with the restored state, if there is one and this is the first call."""
        restored, self._restored = self._restored, None
        if restored is not None:
            _continue(restored)


def _text(state: torch.Tensor) -> str:
    return base64.b64encode(bytes(state.tolist())).decode()  # numpy() needs numpy.


def _tensor(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8)


def _current() -> dict[str, Any]:
    version, numbers, gauss = random.getstate()
    found: dict[str, Any] = {
        "torch": _text(torch.get_rng_state()),
        "python": [version, list(numbers), gauss],
    }
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        found["cuda"] = _text(torch.cuda.get_rng_state())
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        kind, keys, position, has_gauss, cached = numpy_random.get_state()
        found["numpy"] = [kind, keys.tolist(), int(position), int(has_gauss), float(cached)]
    return found


def _continue(state: dict[str, Any]) -> None:
    if "after" in state:  # A rank that was not there: its own numbers, the same at every try.
        seed = int.from_bytes(base64.b64decode(state["after"])[:8], "little")
        torch.manual_seed((seed + 1_000_003 * state["rank"]) % 2**63)
        random.seed(seed + state["rank"])
        return
    torch.set_rng_state(_tensor(state["torch"]))
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(_tensor(state["cuda"]))
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None and "numpy" in state:
        kind, keys, position, has_gauss, cached = state["numpy"]
        numpy_random.set_state((kind, keys, position, has_gauss, cached))
