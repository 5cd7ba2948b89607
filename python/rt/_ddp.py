"""What rt.train.torch and rt.elastic.torch both do to DistributedDataParallel."""

from __future__ import annotations

from torch.nn.parallel import DistributedDataParallel


def fix_buckets(model: DistributedDataParallel) -> None:
    """Takes the step now that DDP takes after the first backward pass: it happens once only."""
    reducer = model.reducer
    reducer._push_all_rebuilt_params()
    reducer._rebuild_buckets()
