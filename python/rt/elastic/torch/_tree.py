"""Sums of weighted gradients: in the order of arrival, or in one fixed tree over all leaves."""

from __future__ import annotations

from typing import Any, Optional

import torch
import torch.distributed as dist

from rt.elastic.torch import _plan
from rt.elastic.torch._job import Job, Step
from rt.elastic.torch._plan import Node

Gradients = list[torch.Tensor]


class Sums:
    """The gradients of the micro-batches of a step, added up; it owns the tensors."""

    def __init__(self) -> None:
        self._leaves = 0
        self._parameters: list[torch.Tensor] = []
        self._nodes: dict[Node, Gradients] = {}
        self._plain: Optional[dict[int, torch.Tensor]] = None

    def begin(self, leaves: int) -> None:
        """A step begins. `leaves`: of the tree, or 0 for sums in the order of arrival."""
        self.clear()
        self._leaves = leaves

    def clear(self) -> None:
        """Drops everything."""
        self._nodes, self._plain = {}, None

    def add(self, micro: _plan.Micro, parameters: Gradients, gradients: Gradients) -> None:
        """Takes the gradients of one micro-batch, whose tensors it may change."""
        if micro.weight == 0:
            return
        torch._foreach_mul_(gradients, micro.weight)
        if self._leaves:
            self._parameters = parameters
            self._nodes[Node(micro.leaf, micro.leaf + 1)] = gradients
            self._merge(Node(0, self._leaves))
            return
        if self._plain is None:
            self._plain = {}
        known = [self._plain.get(id(each)) for each in parameters]
        both = [(a, b) for a, b in zip(known, gradients) if a is not None]
        if both:
            torch._foreach_add_([a for a, _ in both], [b for _, b in both])
        for parameter, old, new in zip(parameters, known, gradients):
            if old is None:
                self._plain[id(parameter)] = new

    def of(self, parameters: Gradients) -> Optional[Gradients]:
        """The sums of these parameters, or None without any."""
        if self._plain is None:
            return None
        zeros = [self._plain.get(id(each)) for each in parameters]
        return [
            torch.zeros_like(parameter) if each is None else each
            for parameter, each in zip(parameters, zeros)
        ]

    def _merge(self, root: Node) -> bool:
        """Adds up the children of nodes below `root` where both are known; whether root is."""
        if root in self._nodes:
            return True
        if root.last - root.first <= 1:
            return False
        left, right = Node(root.first, _plan.middle(root)), Node(_plan.middle(root), root.last)
        known = self._merge(left), self._merge(right)
        if not all(known):
            return False
        sums = self._nodes.pop(left)
        torch._foreach_add_(sums, self._nodes.pop(right))
        self._nodes[root] = sums
        return True

    def total(self, step: Step, job: Job, order: Gradients) -> list[tuple[Any, torch.Tensor]]:
        """(parameter, gradient) of the whole step. In a tree, every rank calls it."""
        if not self._leaves:
            known = self._plain or {}
            return [(each, known[id(each)]) for each in order if id(each) in known]
        if job.ranks > 1:
            self._share(step, job, order)
        self._fill_empty(step)
        self._merge(Node(0, self._leaves))
        (sums,) = self._nodes.values()
        return list(zip(self._parameters or order, sums))

    def _fill_empty(self, step: Step) -> None:
        """Leaves without samples: zeros, so that the tree is complete."""
        shares = _plan.weights(step.count, step.leaves)
        example = next(iter(self._nodes.values()))
        for leaf, share in enumerate(shares):
            inside = any(node.first <= leaf < node.last for node in self._nodes)
            if share == 0 and not inside:
                self._nodes[Node(leaf, leaf + 1)] = [torch.zeros_like(each) for each in example]

    def _share(self, step: Step, job: Job, order: Gradients) -> None:
        """Every rank gets the nodes of all ranks."""
        root = Node(0, step.leaves)
        shares = _plan.weights(step.count, step.leaves)
        self._parameters = order
        for rank in range(job.ranks):
            own = _plan.leaves_of(step.leaves, rank, job.ranks)
            for node in _plan.nodes_inside(root, own):
                if not any(shares[node.first : node.last]):
                    continue
                sums = self._nodes.get(node) if rank == job.rank else None
                self._nodes[node] = _broadcast(sums, order, rank)


def _broadcast(sums: Optional[Gradients], like: Gradients, rank: int) -> Gradients:
    """The tensors of one rank on all ranks, in one message."""
    if sums is not None:
        flat = torch.cat([each.reshape(-1) for each in sums])
    else:
        size = sum(each.numel() for each in like)
        flat = torch.empty(size, dtype=like[0].dtype, device=like[0].device)
    dist.broadcast(flat, rank)
    if sums is not None:
        return sums
    parts = flat.split([each.numel() for each in like])
    return [part.view_as(each) for part, each in zip(parts, like)]
