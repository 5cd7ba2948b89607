"""Ranks that take batches and save their positions: data_consumer.py SPEC, a JSON text.

A process plays all ranks of a training in turn, step by step. The rows of each step are appended
to a log. Every few steps the log and the positions of the ranks are committed together, by rename,
as a checkpoint is. The process is killed from outside; after the checkpoint `waits_at`, if that is
given, it waits until it is killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from rt import data


def keep(row: dict[str, Any]) -> bool:
    return row["id"] % 7 != 3


def plan(spec: dict[str, Any]) -> data.Dataset:
    dataset = data.read_parquet(spec["path"])
    if spec["filter"]:
        dataset = dataset.filter(keep)
    if spec["shuffle"]:
        dataset = dataset.random_shuffle(seed=spec["seed"])
    return dataset.map_batches(lambda batch: {"id": batch["id"]})


def newest(folder: Path) -> Path | None:
    found = sorted(folder.glob("checkpoint-*"))
    return found[-1] if found else None


def main(spec: dict[str, Any]) -> None:
    folder, ranks = Path(spec["folder"]), spec["ranks"]
    shards = [data.shard(plan(spec), rank, ranks) for rank in range(ranks)]
    before = newest(folder)
    epoch, steps = 0, 0
    if before is not None:
        kept = json.loads((before / "state.json").read_text())
        positions = data.read_positions(str(before)).get("train", [])
        for shard in shards:
            shard.resume(positions)
        epoch = kept["epoch"]
    log: list[dict[str, Any]] = [] if before is None else kept["log"]
    loaders = [
        shard.iter_batches(batch_size=spec["batch"], local_shuffle_seed=1,
                           local_shuffle_buffer_size=spec["window"])
        for shard in shards
    ]  # fmt: skip

    def save(number: int, after: bool) -> None:
        path = folder / f".part-{os.getpid()}"
        path.mkdir()
        for rank in spec["savers"]:
            if rank < ranks:
                data.write_positions(str(path), rank, {"train": shards[rank]})
        kept = {"epoch": epoch + after, "log": log}
        (path / "state.json").write_text(json.dumps(kept))
        path.rename(folder / f"checkpoint-{number:06}")
        while number == spec["waits_at"]:
            signal.pause()

    number = 0 if before is None else int(before.name.split("-")[1])
    while epoch < spec["epochs"]:
        for batches in zip(*loaders, strict=True):
            sizes = [len(batch["id"]) for batch in batches]
            assert max(sizes) - min(sizes) <= 1, sizes
            log.append({"epoch": epoch, "rows": [b["id"].tolist() for b in batches]})
            steps += 1
            if steps % spec["every"] == 0:
                number += 1
                save(number, False)
            time.sleep(spec["pause"])  # So that the kill falls anywhere.
        number += 1
        save(number, True)
        epoch += 1
    (folder / "done").touch()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
