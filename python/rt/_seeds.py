"""Derives a search's seed from np.random.seed or random.seed of the script."""

from __future__ import annotations

import random
import sys
from typing import Any, Optional

from rt._json import shown, unboxed

_LIMIT = 2**31 - 1


def draw_seed() -> int:
    """A number of 0 or more from the generator that the script seeded; advances that by one draw.

    The generator is NumPy's global one, as in Ray, if np.random.seed was called. Otherwise it is
    the module `random`, which the system seeds unless the script did so.
    """
    if _numpy_is_seeded():
        return int(sys.modules["numpy"].random.randint(_LIMIT))
    return random.randrange(_LIMIT)


def _numpy_is_seeded() -> bool:
    legacy = sys.modules.get("numpy.random.mtrand")
    generator = getattr(getattr(legacy, "_rand", None), "_bit_generator", None)
    # A new generator knows the entropy that seeded it; np.random.seed removes that.
    return generator is not None and getattr(generator, "_seed_seq", 0) is None


def as_seed(random_state: Any) -> Optional[int]:
    """A random_state as Ray accepts it: an integer, a generator of NumPy, or None.

    Raises ValueError for anything else.
    """
    state = unboxed(random_state)
    if state is None or (isinstance(state, int) and type(state) is not bool and state >= 0):
        return state
    for draw in ("integers", "randint"):  # Of np.random.Generator, and of RandomState.
        if type(state).__module__.startswith("numpy.random") and hasattr(state, draw):
            return int(getattr(state, draw)(_LIMIT))
    raise ValueError(
        "the seed (seed=, random_state=) must be a whole number of 0 or more, or a generator of "
        f"NumPy, not {shown(state)}"
    )
