"""Spot machines (S): a notice that is carried out, too late, or a false alarm; see faults.py. They
are left out where the worker takes no notices from a file."""

from __future__ import annotations

import json

from cluster import takes_notices
from faults import Field, fault
from harness import wait_until
from more_faults import FAULTS

__all__ = ["FAULTS"]  # All of them, with what is added here.


def notice(field: Field, node: str, deadline_s: float) -> None:
    field.cluster.notice(node).write_text(json.dumps({"deadline_s": deadline_s}))


def carry_out(field: Field, node: str) -> None:
    """The machine goes, and another one with its disk comes."""
    field.network.kill_all(node)
    field.cluster.daemons[node].ended()
    field.cluster.notice(node).unlink()
    field.hold(0.1, 1)
    field.cluster.daemons[node].start()


if takes_notices():
    @fault("S")
    def notice_in_time(field: Field) -> None:
        """Its trials are gone before it is."""
        node = field.busy_node()
        notice(field, node, 30)
        wait_until("the node is empty", lambda: not field.trials_on(node), 30)
        carry_out(field, node)

    @fault("S")
    def notice_too_late(field: Field) -> None:
        node = field.busy_node()
        notice(field, node, 0.3)
        field.hold(0, 0.3)
        carry_out(field, node)

    @fault("S")
    def notice_false(field: Field) -> None:
        """Nothing follows, and the node takes work again."""
        node = field.busy_node()
        notice(field, node, 30)
        field.hold(0.2, 2)
        field.cluster.notice(node).unlink()
