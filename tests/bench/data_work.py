"""One pass over a data set: data_work.py rt|ray WORK FOLDER prints seconds and a checksum.

WORK: start, only the small pass that comes before the others; torch_batches, 1 M rows of 4 numbers
from memory as batches of 256 tensors; map_batches, about 1 GB of Parquet in FOLDER (write: makes
it) through a function of three columns. The start of Ray's processes is in the small pass, and is
not measured.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import time

import numpy as np

ROWS, FILES, COLUMNS = 1_000_000, 8, 15


def write(folder: pathlib.Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    draw = np.random.default_rng(0)
    for file in range(FILES):
        columns = {"id": np.arange(file * ROWS, (file + 1) * ROWS)}
        columns |= {f"x{at}": draw.random(ROWS) for at in range(COLUMNS)}
        pq.write_table(pa.table(columns), folder / f"{file}.parquet", row_group_size=200_000)


def changed(batch: dict) -> dict:
    batch = dict(batch)
    batch["y"] = np.sqrt(batch["x0"] ** 2 + batch["x1"] ** 2) + np.sin(batch["x2"])
    return batch


def start(data, folder: pathlib.Path) -> tuple[float, float]:
    return 0.0, 0.0


def torch_batches(data, folder: pathlib.Path) -> tuple[float, float]:
    values = np.arange(4 * ROWS, dtype=np.float32).reshape(ROWS, 4) / ROWS
    dataset = data.from_numpy(values)
    begin, rows, last = time.perf_counter(), 0, 0.0
    for batch in dataset.iter_torch_batches(batch_size=256):
        rows += len(batch["data"])
        last = float(batch["data"][-1, -1])
    assert rows == ROWS
    return time.perf_counter() - begin, last


def map_batches(data, folder: pathlib.Path) -> tuple[float, float]:
    begin, rows, total = time.perf_counter(), 0, 0.0
    for batch in data.read_parquet(str(folder)).map_batches(changed).iter_batches(batch_size=4096):
        rows += len(batch["id"])
        total += float(batch["y"].sum())
    assert rows == FILES * ROWS
    return time.perf_counter() - begin, round(total)


def main() -> None:
    library, work, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    if work == "write":
        write(folder)
        return
    if library == "ray":
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        import ray
        from ray import data

        ray.init(num_cpus=2, log_to_driver=False, include_dashboard=False, logging_level="ERROR")
        data.DataContext.get_current().enable_progress_bars = False
    else:
        from rt import data
    for _ in data.range(1000).map_batches(lambda batch: batch).iter_torch_batches():
        pass
    works = {"start": start, "torch_batches": torch_batches, "map_batches": map_batches}
    seconds, check = works[work](data, folder)
    print("DATA " + json.dumps({"seconds": seconds, "check": check}), flush=True)


main()
