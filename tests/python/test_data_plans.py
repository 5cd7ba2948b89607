"""Data sets against pandas: random tables and random chains of operations, from printed seeds."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pandas as pd
import pytest
from rt import data
from rt.data import _files, _memory, _shuffle

SEEDS = [int(each) for each in os.environ.get("RT_TEST_SEEDS", "").split()] or range(40)


def random_frame(draw: random.Random) -> pd.DataFrame:
    """A table of up to 300 rows with numbers, texts and missing values."""
    rows = draw.choice([0, 1, 2, 7, 50, 300])
    columns: dict[str, Any] = {"id": list(range(rows))}
    for name in draw.sample(["a", "b", "c", "d"], draw.randint(1, 4)):
        kind = draw.choice(["int", "float", "text", "bool", "missing"])
        columns[name] = [
            {"int": draw.randint(-5, 5), "float": draw.uniform(-1, 1), "bool": draw.random() < 0.5,
             "text": draw.choice(["x", "yy", "é", ""]),
             "missing": draw.choice(["q", None])}[kind]
            for _ in range(rows)
        ]  # fmt: skip
    return pd.DataFrame(columns)


def double(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "twice": row["id"] * 2}


def is_odd(row: dict[str, Any]) -> bool:
    return row["id"] % 2 == 1


def copies(row: dict[str, Any]) -> list[dict[str, Any]]:
    return [row] * (row["id"] % 3)


def plus_one(batch: Any) -> Any:
    batch = dict(batch)
    batch["id"] = batch["id"] + 1
    return batch


def plus_one_frame(frame: pd.DataFrame) -> pd.DataFrame:
    frame["id"] = frame["id"] + 1
    return frame


def first_of_batch(batch: dict[str, Any]) -> dict[str, Any]:
    return {name: values[batch["id"] % 5 != 0] for name, values in batch.items()}


def _map(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(twice=frame["id"] * 2) if len(frame) else frame


def _copies(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.loc[frame.index.repeat(frame["id"] % 3)].reset_index(drop=True)


def _plus(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(id=frame["id"] + 1)


Change = tuple[Callable[[data.Dataset], data.Dataset], Callable[[pd.DataFrame], pd.DataFrame]]


def random_change(draw: random.Random) -> Change:
    """The same operation on a data set and on a DataFrame."""
    size = draw.choice([1, 3, 64, None])
    n = draw.choice([0, 1, 5, 40, 1000])
    return draw.choice([
        (lambda d: d.map(double), _map),
        (lambda d: d.filter(is_odd), lambda f: f[f["id"] % 2 == 1].reset_index(drop=True)),
        (lambda d: d.flat_map(copies), _copies),
        (lambda d: d.map_batches(plus_one, batch_size=size), _plus),
        (lambda d: d.map_batches(plus_one_frame, batch_size=size, batch_format="pandas"), _plus),
        (lambda d: d.map_batches(first_of_batch, batch_size=size),
         lambda f: f[f["id"] % 5 != 0].reset_index(drop=True)),
        (lambda d: d.limit(n), lambda f: f.head(n)),
        (lambda d: d.rename_columns({"id": "id"}), lambda f: f),
        (lambda d: d.add_column("one", lambda f: f["id"] * 0 + 1),
         lambda f: f.assign(one=1) if len(f) else f),
        (lambda d: d.random_shuffle(seed=n), lambda f: f),
    ])  # fmt: skip


def plain(value: Any) -> Any:
    """A value that can be compared: one spelling of a missing value, no types of NumPy."""
    if value is None or (isinstance(value, float) and value != value):
        return None
    return value.item() if isinstance(value, np.generic) else value


def rows_of_frame(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{name: plain(value) for name, value in row.items()} for row in frame.to_dict("records")]


def in_any_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)


def read_back(frame: pd.DataFrame, draw: random.Random, folder: Path) -> data.Dataset:
    """The table as a data set: from memory, or from files of one of the kinds."""
    kind = draw.choice(["items", "pandas", "arrow", "parquet", "json", "parts"])
    if kind == "items" or len(frame) == 0:
        return data.from_items(rows_of_frame(frame)) if len(frame) else data.from_pandas(frame)
    if kind == "pandas":
        return data.from_pandas(frame)
    table = data.from_pandas(frame).to_arrow()
    if kind == "arrow":
        return data.from_arrow([table.slice(0, len(frame) // 2), table.slice(len(frame) // 2)])
    if kind == "json":
        frame.to_json(folder / "t.json", orient="records", lines=True)
        return data.read_json(folder / "t.json")
    import pyarrow.parquet as pq

    if kind == "parquet":
        pq.write_table(table, folder / "t.parquet", row_group_size=draw.choice([1, 10, 1000]))
        return data.read_parquet(folder / "t.parquet")
    (folder / "many").mkdir()
    for part in range(3):
        rows = table.slice(part * (len(frame) // 3), None if part == 2 else len(frame) // 3)
        pq.write_table(rows, folder / f"many/{part}.parquet")
    return data.read_parquet(folder / "many")


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks, buckets and spills of a few rows, so that small tables have many of each."""
    monkeypatch.setattr(_memory, "rows_per_block", lambda table: 7)
    monkeypatch.setattr(_memory, "_RANGE_ROWS", 9)
    monkeypatch.setattr(_files, "_RANGE_BYTES", 300)
    monkeypatch.setattr(_shuffle, "_BUCKET_BYTES", 700)
    monkeypatch.setattr(_shuffle, "SPILL_BYTES", 2000)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_chain_gives_what_pandas_gives(
    seed: int, tmp_path: Path, small_blocks: None
) -> None:
    draw = random.Random(seed)
    frame = random_frame(draw)
    dataset = read_back(frame, draw, tmp_path)
    shuffled, names = False, []
    for _ in range(draw.randint(0, 5)):
        change, expect = random_change(draw)
        if shuffled and expect(frame).shape[0] < len(frame):
            continue  # Which rows a limit keeps depends on the order.
        dataset, frame = change(dataset), expect(frame)
        shuffled |= "RandomShuffle" in repr(dataset)
        names.append(repr(dataset).split("\n")[0])
    print(f"seed {seed}: {len(frame)} rows, {' '.join(names)}")
    found = [{k: plain(v) for k, v in row.items()} for row in dataset.take_all()]
    expected = rows_of_frame(frame)
    if shuffled:
        found, expected = in_any_order(found), in_any_order(expected)  # type: ignore[assignment]
    assert found == expected, f"seed {seed}"
    assert dataset.count() == len(frame)
    size = draw.choice([1, 4, 256])
    batches = list(dataset.iter_batches(batch_size=size))
    assert [len(each["id"]) for each in batches[:-1]] == [size] * (len(batches) - 1)
    assert sum(len(each["id"]) for each in batches) == len(frame)


@pytest.mark.parametrize("seed", SEEDS)
def test_shards_take_each_row_once_in_equally_many_batches(
    seed: int, tmp_path: Path, small_blocks: None
) -> None:
    draw = random.Random(seed)
    frame = random_frame(draw)
    ranks, size = draw.randint(1, 5), draw.choice([1, 2, 3, 16])
    if len(frame) < 10:
        return
    dataset = read_back(frame, draw, tmp_path)
    for _ in range(draw.randint(0, 2)):
        dataset, frame = (dataset.map(double), frame) if draw.random() < 0.5 else (
            dataset.random_shuffle(seed=draw.randrange(9)), frame)  # fmt: skip
    if draw.random() < 0.5:
        dataset, frame = dataset.filter(is_odd), frame[frame["id"] % 2 == 1]
    print(f"seed {seed}: {len(frame)} rows, {ranks} ranks, batches of {size}")
    window = draw.choice([None, 1, 5, 100])
    shards = dataset.streaming_split(ranks)
    for epoch in range(2):
        taken = [
            [b["id"].tolist() for b in shard.iter_batches(batch_size=size, local_shuffle_seed=3,
                                                          local_shuffle_buffer_size=window)]
            for shard in shards
        ]  # fmt: skip
        assert len({len(each) for each in taken}) == 1, f"seed {seed}"
        rows = [sum(len(batch) for batch in each) for each in taken]
        assert max(rows) - min(rows) <= 1
        for step in zip(*taken):
            assert max(map(len, step)) - min(map(len, step)) <= 1
        everything = sorted(row for each in taken for batch in each for row in batch)
        assert everything == sorted(frame["id"]), f"seed {seed}, epoch {epoch}"


def test_a_shuffle_is_a_function_of_seed_and_epoch(small_blocks: None) -> None:
    dataset = data.range(100).random_shuffle(seed=7)

    def order(ranks: int, epochs: int) -> list[int]:
        shards = dataset.streaming_split(ranks)
        for _ in range(epochs):
            rows = [row["id"] for shard in shards for row in shard.iter_rows()]
        return rows

    first, second = order(1, 1), order(1, 2)
    assert sorted(first) == sorted(second) == list(range(100)) and first != second
    for ranks in (2, 3, 7):
        assert order(ranks, 1) == first and order(ranks, 2) == second
    assert order(1, 1) != list(range(100))
    other = data.range(100).random_shuffle(seed=8)
    assert [row["id"] for row in other.take_all()] != first
    assert [row["id"] for row in dataset.take_all()] == first == [
        row["id"] for row in dataset.iter_rows()]  # fmt: skip


def test_every_order_is_about_as_likely() -> None:
    counts: dict[tuple[int, ...], int] = {}
    for seed in range(1200):
        order = tuple(row["id"] for row in data.range(3).random_shuffle(seed=seed).take_all())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 6 and min(counts.values()) > 150 and max(counts.values()) < 250


def test_without_a_seed_each_pass_has_an_order_of_its_own() -> None:
    dataset = data.range(50).random_shuffle()
    orders = [[row["id"] for row in dataset.iter_rows()] for _ in range(3)]
    assert len({tuple(each) for each in orders}) == 3


def test_parts_of_a_split_stay_apart_in_all_epochs() -> None:
    train, test = data.range(40).random_shuffle().train_test_split(0.25)
    held_out = {row["id"] for row in test.take_all()}
    (shard,) = train.random_shuffle().streaming_split(1)
    for _ in range(3):
        rows = {row["id"] for row in shard.iter_rows()}
        assert len(rows) == 30 and not rows & held_out
