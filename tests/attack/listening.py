"""Where a process listens, as the kernel tells."""

from __future__ import annotations

import os
import pathlib

LISTENING = "0A"


def ports(pid: int) -> list[int]:
    """The TCP ports on which process `pid` accepts connections, ascending."""
    own = pathlib.Path(f"/proc/{pid}/fd")
    sockets = set()
    for one in own.iterdir():
        try:
            target = os.readlink(one)
        except FileNotFoundError:
            continue
        if target.startswith("socket:["):
            sockets.add(target[8:-1])
    found = set()
    for family in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{pid}/net/{family}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and fields[9] in sockets:
                found.add(int(fields[1].rsplit(":", 1)[1], 16))
    return sorted(found)
