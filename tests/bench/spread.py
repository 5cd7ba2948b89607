"""Bytes that many workers want at once, over mTLS on one machine: `fanout`; and that one worker has
already: `clone`.

    fanout_copies      of 1 GiB that eight workers fetch at the same time, sent by the head
    fanout             from the submit until each of them has it
    clone_same_node    a checkpoint of 2 GiB, restored where it was pushed from
    clone_in_store     files that the store gains by it
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import tempfile
import time

from rt_cluster import BIN, ROOT, BenchCluster, note, print_bench

WORKERS = 8
MIB = 1 << 20
TOTAL = 1 << 30


def fanout(with_peers: bool) -> None:
    del with_peers  # Ray has no such thing: each worker reads the shared disk.
    with BenchCluster(workers=WORKERS, cpus=1) as cluster:
        tree = cluster.home / "model"
        write(tree, TOTAL)
        pushed = cluster.bridge([{"op": "blob_push_dir", "path": str(tree)}])[0]["manifest"]
        address = (cluster.home / "home/clusters/it/head/address").read_text().strip()
        before, used = sent_by(address), cluster.cpu_s()
        began = time.perf_counter()
        experiment = cluster.run_experiment("fanout", (
            f"experiment: fanout\ncommand: {json.dumps(['sh', '-c', 'test -d $MODEL; sleep 2'])}\n"
            f"inputs: [{{manifest: '{pushed}', env: MODEL}}]\n"
            f"space: {{k: {{grid: {list(range(WORKERS))}}}}}\n"))
        took = time.perf_counter() - began - 2
        copies = (sent_by(address) - before) / TOTAL
        spent = sum(cluster.cpu_s().values()) - sum(used.values())
        nodes = {trial["node_ids"][0] for trial in cluster.trials(experiment["id"])}
    if len(nodes) != WORKERS:
        raise SystemExit(f"fanout: only {len(nodes)} workers took part")
    print_bench("fanout_copies", copies, "copies", "<=2", f"{WORKERS} copies, one for each")
    print_bench("fanout", took, "s", "none", "-")
    note(f"{WORKERS} copies of 1 GiB on one disk: {WORKERS * TOTAL / MIB / took:.0f} MiB/s in all, "
         f"{spent / WORKERS:.2f} CPU seconds of all daemons for each")


def clone(with_peers: bool) -> None:
    """On this disk, and on one that has reflinks if root can make it (xfsprogs)."""
    del with_peers
    program = BIN / "bench_clone"
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
        note(f"{folder}:")
        subprocess.run([program, folder], check=True)
        if os.geteuid() != 0 or shutil.which("mkfs.xfs") is None:
            note("XFS is not measured: it takes root and xfsprogs")
            return
        image, place = pathlib.Path(folder, "image"), pathlib.Path(folder, "xfs")
        place.mkdir()
        with open(image, "wb") as file:
            file.truncate(10 << 30)
        subprocess.run(["mkfs.xfs", "-q", image], check=True)
        subprocess.run(["mount", "-o", "loop", image, place], check=True)
        try:
            note("XFS in a file there:")
            subprocess.run([program, place], check=True)
        finally:
            subprocess.run(["umount", place], check=True)


def write(tree: pathlib.Path, size: int) -> None:
    tree.mkdir(parents=True)
    source = random.Random(1)
    with open(tree / "weights", "wb") as file:
        for _ in range(size // (16 * MIB)):
            file.write(source.randbytes(16 * MIB))


def sent_by(address: str) -> int:
    """Bytes that the listener there has sent over the connections that are still open."""
    port = address.rsplit(":", 1)[1]
    text = subprocess.run(["ss", "-tinOH", "state", "established", f"( sport = :{port} )"],
                          capture_output=True, text=True, check=True).stdout
    return sum(int(number) for number in re.findall(r"bytes_sent:(\d+)", text))
