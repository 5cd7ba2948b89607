"""A few numbers per step that all ranks add up, while the next step already runs."""

from __future__ import annotations

from typing import Any, Optional

import torch
import torch.distributed as dist


class Exchange:
    """At most one sum under way. What it starts in one step it finishes in the next: the ranks do
    not wait for each other, and a gpu is not waited for."""

    def __init__(self) -> None:
        self._values: Optional[torch.Tensor] = None
        self._work: Any = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way."""
        return self._values is None

    def start(self, control: list[float], measured: Optional[torch.Tensor]) -> None:
        """Adds up `control` and `measured` over the ranks; both lengths are alike everywhere."""
        values = torch.tensor(control, dtype=torch.float64)
        ranks = dist.get_world_size() if dist.is_initialized() else 1
        if ranks > 1 and dist.get_backend() == "nccl":
            values = values.to(torch.device("cuda", torch.cuda.current_device()))
        if measured is not None:
            if ranks == 1:
                values = values.to(measured.device, non_blocking=True)
            values = torch.cat([values, measured.to(values.device)])
        self._work = dist.all_reduce(values, async_op=True) if ranks > 1 else None
        self._values = values

    def finish(self) -> Optional[list[float]]:
        """The sums; None if nothing is under way."""
        if self._values is None:
            return None
        if self._work is not None:
            self._work.wait()
        values, self._values, self._work = self._values.tolist(), None, None
        return list(values)
