"""Positions: exactly once under kills at random moments, at any number of ranks."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rt import data
from rt.data import _memory, _ranges

HERE = Path(__file__).resolve().parent
SEEDS = [int(each) for each in os.environ.get("RT_TEST_SEEDS", "").split()] or range(4)
ROWS = 400


def start(spec: dict[str, Any]) -> subprocess.Popen[bytes]:
    env = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "python")}
    return subprocess.Popen([sys.executable, str(HERE / "data_consumer.py"), json.dumps(spec)],
                            env=env)  # fmt: skip


def checkpoints(folder: Path) -> int:
    return len(list(folder.glob("checkpoint-*")))


@pytest.mark.parametrize("seed", SEEDS)
def test_kills_at_random_moments_repeat_and_skip_nothing(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    pq.write_table(pa.table({"id": range(ROWS)}), tmp_path / "t.parquet", row_group_size=37)
    spec = {
        "path": str(tmp_path / "t.parquet"), "folder": str(tmp_path), "epochs": 3, "seed": seed,
        "filter": draw.random() < 0.5, "shuffle": draw.random() < 0.7, "pause": 0.002,
        "window": draw.choice([None, 16, 1000]), "batch": draw.choice([1, 3, 8]),
        "every": draw.choice([1, 5]), "ranks": draw.randint(1, 4),
        "savers": draw.choice([[0], [0, 1, 2, 3]]),
    }  # fmt: skip
    print(f"seed {seed}: {spec}")
    deadline = time.monotonic() + 120
    kills = 0
    while not (tmp_path / "done").exists():
        assert time.monotonic() < deadline, f"seed {seed}: not done after {kills} kills"
        had = checkpoints(tmp_path)
        more = draw.randint(1, 3 if kills < 2 else 12) if kills < 4 else 10_000
        # However slow this process is, two kills come before the end.
        process = start({**spec, "waits_at": had + more + 1 if kills < 2 else None})
        while process.poll() is None and checkpoints(tmp_path) < had + more:
            time.sleep(draw.random() * 0.01)
            assert time.monotonic() < deadline, f"seed {seed}"
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
            spec["ranks"] = draw.randint(1, 4)
        status = process.wait()
        assert status in (0, -signal.SIGKILL), f"seed {seed}: exit status {status}"
    last = json.loads((sorted(tmp_path.glob("checkpoint-*"))[-1] / "state.json").read_text())
    wanted = [row for row in range(ROWS) if not spec["filter"] or row % 7 != 3]
    for epoch in range(3):
        steps = [each["rows"] for each in last["log"] if each["epoch"] == epoch]
        rows = [row for step in steps for batch in step for row in batch]
        assert sorted(rows) == wanted, f"seed {seed}, epoch {epoch}"
    assert kills >= 2


def taken(iterator: data.DataIterator, batches: int, size: int = 4) -> list[int]:
    """The rows of some batches. The pass has not ended for what is reported inside the loop."""
    rows: list[int] = []
    kept.append(iter(iterator.iter_batches(batch_size=size)))
    for _ in range(batches):
        rows += next(kept[-1])["id"].tolist()
    return rows


kept: list[Any] = []  # Passes that are under way.


def test_a_position_is_json_and_says_where_the_next_row_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_memory, "_RANGE_ROWS", 10)
    (shard,) = data.range(35).streaming_split(1)
    assert shard.position()["taken"] == 0
    taken(shard, 3)
    position = json.loads(json.dumps(shard.position()))
    assert (position["epoch"], position["block"], position["row"]) == (0, 1, 2)
    assert position["taken"] == 12 and not position["ended"]
    assert set(position) == {"format", "epoch", "ended", "world_size", "rank", "taken", "block",
                             "row", "within", "shuffle", "seeds", "counts", "plan"}  # fmt: skip


def test_a_checkpoint_before_the_first_batch_after_a_restart_keeps_the_position() -> None:
    (shard,) = data.range(20).streaming_split(1)
    taken(shard, 2)
    (again,) = data.range(20).streaming_split(1)
    again.resume([shard.position()])
    assert again.position() == shard.position()
    assert [row["id"] for row in again.iter_rows()] == list(range(8, 20))
    assert [row["id"] for row in again.iter_rows()] == list(range(20))


def test_a_pass_whose_loop_was_left_is_not_resumed() -> None:
    (shard,) = data.range(20).streaming_split(1)
    for _ in shard.iter_batches(batch_size=5):
        break
    assert shard.position()["ended"]
    (again,) = data.range(20).streaming_split(1)
    again.resume([shard.position()])
    assert [row["id"] for row in again.iter_rows()] == list(range(20))
    assert again.position()["epoch"] == 1


def test_all_rows_taken_inside_the_loop_resume_as_an_empty_pass() -> None:
    (shard,) = data.range(8).streaming_split(1)
    taken(shard, 2)
    (again,) = data.range(8).streaming_split(1)
    again.resume([shard.position()])
    assert list(again.iter_batches()) == []
    assert len(list(again.iter_batches())) == 1


def test_ranks_at_different_batches_lose_nothing_at_another_world_size() -> None:
    shards = data.range(100).streaming_split(4)
    rows = [row for rank, shard in enumerate(shards) for row in taken(shard, rank)]
    positions = [shard.position() for shard in shards]
    others = data.range(100).streaming_split(3)
    for each in others:
        each.resume(positions)
    rows += [row["id"] for each in others for row in each.iter_rows()]
    assert sorted(rows) == list(range(100))


def test_a_missing_position_is_that_of_rank_0() -> None:
    for world_size in (3, 2):
        shards = data.range(31).streaming_split(3)
        rows = [row for shard in shards for row in taken(shard, 2)]
        others = data.range(31).streaming_split(world_size)
        for each in others:
            each.resume([shards[0].position()])
        rows += [row["id"] for each in others for row in each.iter_rows()]
        assert sorted(rows) == list(range(31)), world_size


def test_files_of_earlier_ranks_in_a_directory_are_left_out(tmp_path: Path) -> None:
    for ranks, savers, batches in ((2, 2, 3), (4, 1, 1)):
        shards = data.range(40).streaming_split(ranks)
        rows = [row for shard in shards for row in taken(shard, batches)]
        for rank in range(savers):
            data.write_positions(str(tmp_path), rank, {"train": shards[rank]})
    positions = data.read_positions(str(tmp_path))["train"]
    assert [each["world_size"] for each in positions] == [4, 2]
    others = data.range(40).streaming_split(3)
    for each in others:
        each.resume(positions)
    rows += [row["id"] for each in others for row in each.iter_rows()]
    assert sorted(rows) == list(range(40))


def test_fewer_rows_than_ranks_give_an_empty_batch_only_after_a_resize() -> None:
    with pytest.raises(ValueError, match="has 3 rows, too few for 4 ranks"):
        list(data.range(3).streaming_split(4)[0].iter_batches())
    (shard,) = data.range(9).streaming_split(1)
    taken(shard, 2)
    others = data.range(9).streaming_split(3)
    sizes = []
    for each in others:
        each.resume([shard.position()])
        if each._rank:
            with pytest.warns(UserWarning, match="gets an empty batch"):
                sizes += [len(batch["id"]) for batch in each.iter_batches()]
        else:
            sizes += [len(batch["id"]) for batch in each.iter_batches()]
    assert sizes == [1, 0, 0]


def test_a_position_of_another_data_set_is_refused() -> None:
    (shard,) = data.range(20).streaming_split(1)
    for other in (data.range(21), data.range(20).random_shuffle(seed=1)):
        with pytest.raises(ValueError, match="is not the one of the checkpoint"):
            other.streaming_split(1)[0].resume([shard.position()])
    newer = {**shard.position(), "format": 2}
    with pytest.raises(ValueError, match="format 2, and this release reads format 1"):
        data.range(20).streaming_split(1)[0].resume([newer])


def test_a_drawn_seed_travels_in_the_position() -> None:
    (shard,) = data.range(30).random_shuffle().streaming_split(1)
    rows = taken(shard, 3)
    (again,) = data.range(30).random_shuffle().streaming_split(1)
    again.resume([shard.position()])
    rows += [row["id"] for row in again.iter_rows()]
    assert sorted(rows) == list(range(30))


def test_counted_rows_travel_in_the_position_and_are_not_counted_again() -> None:
    calls = []

    def odd(row: dict[str, Any]) -> bool:
        calls.append(row)
        return row["id"] % 2 == 1

    shards = data.range(100).filter(odd).streaming_split(2)
    assert len(list(shards[0].iter_batches(batch_size=5))) == 5
    position = shards[0].position()
    assert position["counts"] == {"0": [50]}
    calls.clear()
    again = data.range(100).filter(odd).streaming_split(2)[0]
    again.resume([position])
    list(again.iter_batches())
    assert len(calls) == 100  # One pass over the block, none to count.


def test_a_function_that_is_not_deterministic_is_noticed() -> None:
    calls: list[int] = []

    def changing(row: dict[str, Any]) -> bool:
        calls.append(row["id"])
        return len(calls) <= 100 or row["id"] > 60

    shards = data.range(100).filter(changing).streaming_split(2)
    with pytest.raises(RuntimeError, match="must be deterministic"):
        for shard in shards:
            list(shard.iter_batches())


def test_files_of_positions_are_checked(tmp_path: Path) -> None:
    assert data.read_positions(str(tmp_path)) == {}
    (shard,) = data.range(9).streaming_split(1)
    data.write_positions(str(tmp_path), 2, {"train": shard})
    (tmp_path / ".rt_data.x.json").write_text("another file")
    assert data.read_positions(str(tmp_path)) == {"train": [shard.position()]}
    (tmp_path / ".rt_data.3.json").write_text("{")
    with pytest.raises(ValueError, match=r"\.rt_data\.3\.json holds no positions"):
        data.read_positions(str(tmp_path))


@pytest.mark.parametrize("seed", range(200))
def test_ranges_of_rows_are_split_without_loss(seed: int) -> None:
    draw = random.Random(seed)
    rows = draw.randint(0, 60)
    ranges = _ranges.of_rows(draw.sample(range(100), rows))
    ranks, size = draw.randint(1, 7), draw.randint(1, 9)
    shares = [_ranges.share(ranges, rank, ranks) for rank in range(ranks)]
    assert _ranges.union(each for share in shares for each in share) == ranges
    sizes = [_ranges.size(each) for each in shares]
    assert max(sizes) - min(sizes) <= 1 and sum(sizes) == rows
    batches = [_ranges.batch_sizes(rows, 0, rank, ranks, size) for rank in range(ranks)]
    assert len({len(each) for each in batches}) == 1
    assert [sum(each) for each in batches] == sizes
    assert all(0 <= each <= size + 1 for rank in batches for each in rank)


@pytest.mark.filterwarnings("ignore:rank . gets an empty batch")
@pytest.mark.parametrize("world_size", [2, 3])
@pytest.mark.parametrize("batches", range(9))
def test_a_local_shuffle_resumes_inside_its_window(batches: int, world_size: int) -> None:
    def loader(shard: data.DataIterator) -> Any:
        return iter(shard.iter_batches(batch_size=3, local_shuffle_buffer_size=7,
                                       local_shuffle_seed=5))  # fmt: skip

    shards = data.range(50).streaming_split(2)
    undisturbed = [[b["id"].tolist() for b in loader(shard)] for shard in shards]
    assert [sorted(batch) for batch in undisturbed[0]] != undisturbed[0]
    shards = data.range(50).streaming_split(2)
    loaders = [loader(shard) for shard in shards]
    found = [[next(each)["id"].tolist() for _ in range(batches)] for each in loaders]
    positions = [shard.position() for shard in shards]
    others = data.range(50).streaming_split(world_size)
    for each in others:
        each.resume(positions)
    rest = [[b["id"].tolist() for b in loader(each)] for each in others]
    if world_size == 2:
        assert [a + b for a, b in zip(found, rest)] == undisturbed
    rows = [row for rank in found + rest for batch in rank for row in batch]
    assert sorted(rows) == list(range(50))
