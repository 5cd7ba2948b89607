"""Random numbers that are a function of their key, in every process and with every NumPy."""

from __future__ import annotations

import hashlib
from typing import Any

from rt.data._arrow import np


def _raw(count: int, *key: Any) -> Any:
    """`count` numbers, uint64, of Philox with the digest of the key."""
    return generator(*key).random_raw(count)


def generator(*key: Any) -> Any:
    """Philox with the digest of the key; random_raw draws from it, in parts or at once."""
    digest = hashlib.blake2b(repr(key).encode(), digest_size=16).digest()
    return np.random.Philox(key=int.from_bytes(digest, "little"))


def permutation(count: int, *key: Any) -> Any:
    """The numbers 0 to count - 1, int64, in an order given by the key; every order is as likely."""
    return np.argsort(_raw(count, *key), kind="stable")


def buckets(count: int, bucket_count: int, draws: Any) -> Any:
    """A bucket for each of the next `count` rows, int64; `draws` is a generator() and advances."""
    raw = draws.random_raw(count) >> np.uint64(32)
    return ((raw * np.uint64(bucket_count)) >> np.uint64(32)).astype(np.int64)
