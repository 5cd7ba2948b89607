"""What the head gave to this process."""

from __future__ import annotations

import json
import os

_BUILT_IN = {"cpu": "cpu", "gpu": "gpu", "memory": "memory_bytes"}


def assigned() -> dict[str, float]:
    """The amounts by name, without zeros: {"cpu": 2.0, "license": 1.0}; {} in a process that is not
    of the cluster. `memory` is in bytes."""
    try:
        given = json.loads(os.environ.get("RT_ASSIGNED") or "{}")
        amounts = {name: given.get(key, 0) for name, key in _BUILT_IN.items()}
        amounts |= given.get("custom", {})
        return {str(name): float(amount) for name, amount in amounts.items() if amount}
    except (ValueError, TypeError, AttributeError):
        return {}


def to_text(amounts: dict[str, float]) -> str:
    """The text of RT_ASSIGNED from which `assigned` reads these amounts."""
    custom = {name: amount for name, amount in amounts.items() if name not in _BUILT_IN}
    built_in = {key: amounts.get(name, 0) for name, key in _BUILT_IN.items()}
    return json.dumps({**built_in, "custom": custom})
