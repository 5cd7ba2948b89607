"""The state of the fake trainer: a chain of hashes over (seed, step). A step that is lost, repeated
or taken from another trial changes every value after it."""

from __future__ import annotations

import hashlib


def first(seed: int, k: int) -> str:
    return hashlib.sha256(f"{seed}/{k}".encode()).hexdigest()


def following(state: str, step: int) -> str:
    return hashlib.sha256(f"{state}/{step}".encode()).hexdigest()


def loss_of(state: str) -> float:
    """In [0, 1), and exact as a double."""
    return int(state[:8], 16) / 2**32


def weights_of(state: str, size: int) -> bytes:
    """`size` bytes that only this state has."""
    return hashlib.shake_128(state.encode()).digest(size)


def states(seed: int, k: int, steps: int) -> list[str]:
    """states[i] is the state after step i."""
    chain = [first(seed, k)]
    for step in range(1, steps + 1):
        chain.append(following(chain[-1], step))
    return chain
