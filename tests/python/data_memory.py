"""How much memory a pass needs: data_memory.py WORK PATH LIMIT_MB prints peak MB over the start's.

The limit of the bytes that wait between threads is lowered, so that ten times as much streams
through in a second.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rt import data
from rt.data import _executor, _files, _operators, _shuffle

WORK, PATH, LIMIT = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]) << 20
BLOCK, COLUMNS = LIMIT // 32, 16
ROWS = BLOCK // (8 * COLUMNS)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def write(total: int) -> None:
    """Parquet files of `total` bytes of random numbers."""
    made = np.random.default_rng(0)
    names = ["id", *(f"x{at}" for at in range(COLUMNS - 1))]
    schema = pa.schema([(name, pa.int64()) for name in names])
    with pq.ParquetWriter(PATH / "t.parquet", schema, compression="none",
                          use_dictionary=False) as writer:  # fmt: skip
        for _ in range(total // BLOCK):
            numbers = made.integers(0, 1 << 60, (COLUMNS, ROWS))
            writer.write_table(pa.table(list(numbers), schema=schema))


def widened(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {**batch, "twice": batch["id"] * 2}


_executor.AHEAD_BYTES_MAX = 2 * BLOCK
_operators.BLOCK_BYTES_MAX = _files.BLOCK_BYTES_MAX = BLOCK
_shuffle._BUCKET_BYTES, _shuffle.SPILL_BYTES = 2 * BLOCK, 2 * BLOCK
pa.set_memory_pool(pa.system_memory_pool())  # Gives back at once what it does not need.

write(10 * LIMIT)
dataset = data.read_parquet(PATH)
if WORK == "map":
    dataset = dataset.map_batches(widened)
elif WORK == "shuffle":
    dataset = dataset.random_shuffle(seed=1)
next(iter(data.range(10).map_batches(lambda batch: batch).iter_batches()))  # Imports come first.
before, peak, rows = resident(), 0, 0
done = threading.Event()


def watch() -> None:
    global peak
    while not done.wait(0.002):
        peak = max(peak, resident())


watcher = threading.Thread(target=watch)
watcher.start()
for batch in dataset.iter_batches(batch_size=1024):
    rows += len(batch["id"])
done.set()
watcher.join()
assert rows == 10 * LIMIT // BLOCK * ROWS, rows
print((max(peak, resident()) - before) >> 20)
