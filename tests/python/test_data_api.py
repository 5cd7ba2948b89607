"""Names, arguments, results and errors of rt.data as users of Ray Data know them."""

from __future__ import annotations

import copy
import importlib
import pickle
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from rt import data
from rt.data import _executor

PYTHON = str(Path(__file__).resolve().parents[2] / "python")


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": PYTHON},
                          check=False, capture_output=True, text=True, timeout=120)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_rt_as_ray_has_data() -> None:
    import rt as ray

    assert ray.data.range(3).count() == 3
    assert importlib.import_module("rt.data") is ray.data


def test_rt_itself_imports_neither_data_nor_pyarrow() -> None:
    loaded = run("import sys, rt; from rt import tune, train; "
                 "print([m for m in sys.modules if m.startswith(('rt.data', 'pyarrow', 'numpy'))])")
    assert loaded.strip() == "[]"


def test_importing_data_starts_no_thread() -> None:
    assert run("import threading; from rt import data; d = data.range(9).map(dict); "
               "print(threading.active_count(), len(__import__('os').listdir('/proc/self/task')))"
               ).split()[0] == "1"  # fmt: skip


def test_without_pyarrow_the_error_says_what_to_install() -> None:
    said = run(
        "import sys; sys.modules['pyarrow'] = None\n"
        "for code in ('from rt import data', 'import rt; rt.data', 'import rt.data'):\n"
        "    try: exec(code)\n"
        "    except ImportError as error: print(error)\n"
    ).splitlines()
    assert len(said) == 3 and all(line.endswith("pip install 'rt[data]'") for line in said), said


def test_results_that_ray_gives() -> None:
    dataset = data.range(10)
    assert dataset.take(2) == [{"id": 0}, {"id": 1}]
    assert len(dataset.take()) == 10 and len(data.range(30).take()) == 20
    assert dataset.take_batch(3)["id"].tolist() == [0, 1, 2]
    assert dataset.take_batch(2, batch_format="pandas").equals(pd.DataFrame({"id": [0, 1]}))
    assert dataset.take_batch(2, batch_format="pyarrow") == pa.table({"id": [0, 1]})
    with pytest.raises(ValueError, match="the data set has no rows"):
        dataset.limit(0).take_batch()
    with pytest.raises(ValueError, match="has more than 3 rows"):
        dataset.take_all(3)
    assert dataset.schema().names == dataset.columns() == ["id"]  # type: ignore[union-attr]
    assert repr(dataset.schema()) == "Column  Type\n------  ----\nid      int64"
    assert data.from_items([]).schema() is None
    assert repr(dataset) == "Dataset(num_rows=10, schema={id: int64})"
    assert repr(dataset.map(dict)) == f"Map(dict)\n+- {dataset!r}"
    assert "num_blocks=1, num_rows=10" in repr(dataset.materialize())
    assert [each.count() for each in dataset.split(3)] == [4, 3, 3]
    assert [each.count() for each in dataset.split(3, equal=True)] == [3, 3, 3]
    assert [each.count() for each in dataset.split_at_indices([2, 5])] == [2, 3, 5]
    train, test = dataset.train_test_split(0.25)
    assert [row["id"] for row in train.take_all()] == list(range(7)) and test.count() == 3
    assert [each.count() for each in dataset.train_test_split(4, shuffle=True)] == [6, 4]
    assert dataset.limit(-1).take() == []


def test_show_prints_rows(capsys: pytest.CaptureFixture[str]) -> None:
    data.range(3).show(2)
    assert capsys.readouterr().out == "{'id': 0}\n{'id': 1}\n"


def test_columns_are_chosen_renamed_and_added() -> None:
    dataset = data.from_items([{"a": 1, "b": 2}])
    assert dataset.select_columns(["b", "a"]).columns() == ["b", "a"]
    assert dataset.drop_columns(["a"]).take() == [{"b": 2}]
    assert dataset.rename_columns({"a": "z"}).take() == [{"z": 1, "b": 2}]
    assert dataset.rename_columns(["p", "q"]).take() == [{"p": 1, "q": 2}]
    assert dataset.add_column("c", lambda frame: frame["a"] + 1).take()[0]["c"] == 2
    assert dataset.add_column("a", lambda frame: frame["a"] + 1).take() == [{"a": 2, "b": 2}]
    for wrong in (lambda: dataset.select_columns(["z"]), lambda: dataset.drop_columns(["z"])):
        with pytest.raises(ValueError, match="there is no column 'z'; the columns are 'a', 'b'"):
            wrong().take()


def test_changes_of_columns_need_no_cloudpickle() -> None:
    dataset = data.from_items([{"a": 1, "b": 2}]).map_batches(copy.copy)
    dataset = dataset.rename_columns({"a": "z"}).select_columns(["z", "b"]).drop_columns("b")
    (shard,) = pickle.loads(pickle.dumps(dataset.streaming_split(1)))
    assert list(shard.iter_rows()) == [{"z": 1}]


def test_batch_functions_may_be_classes_generators_and_have_arguments() -> None:
    class Adder:
        made = 0

        def __init__(self, by: int) -> None:
            Adder.made += 1
            self.by = by

        def __call__(self, batch: dict[str, Any], times: int = 1) -> Any:
            for _ in range(times):
                yield {"id": batch["id"] + self.by}

    dataset = data.range(4).map_batches(Adder, batch_size=2, fn_constructor_args=[5],
                                        fn_kwargs={"times": 2}, concurrency=2)  # fmt: skip
    assert [row["id"] for row in dataset.take_all()] == [5, 6, 5, 6, 7, 8, 7, 8]
    assert Adder.made == 1
    assert data.range(1).map(lambda row, n: {"n": n}, fn_args=[3]).take() == [{"n": 3}]


def test_arrays_of_a_batch_are_copies_when_asked_for() -> None:
    def change(batch: dict[str, Any]) -> dict[str, Any]:
        batch["id"][:] = 0
        return batch

    dataset = data.range(3).materialize()
    with pytest.raises(ValueError, match="read-only"):
        dataset.map_batches(change).take()
    assert dataset.map_batches(change, zero_copy_batch=False).take_batch()["id"].sum() == 0
    for batch in dataset.iter_batches():
        batch["id"][:] = 7
    assert dataset.take_batch()["id"].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda d: d.map(lambda row: 3), "Map(<lambda>) must return dicts"),
        (lambda d: d.flat_map(lambda row: 3), "FlatMap(<lambda>) must return a list of rows"),
        (lambda d: d.flat_map(lambda row: [3]), "FlatMap(<lambda>) must return a list of dicts"),
        (lambda d: d.map_batches(lambda batch: 3), "MapBatches(<lambda>) must return a dict"),
        (lambda d: d.map_batches(lambda batch: {"x": 1}), "returned int as column 'x'"),
        (lambda d: d.map_batches(lambda batch: {"x": [1, 2], "y": [1]}), "different lengths"),
        (lambda d: d.map_batches(3), "map_batches() takes a function, not int"),
        (lambda d: d.map_batches(dict, batch_size=0), "batch_size must be 1 or more"),
        (lambda d: d.map_batches(dict, batch_format="x"), "batch_format must be one of"),
        (lambda d: d.add_column("y", lambda f: [1]), "AddColumn(y): 1 values for 5 rows"),
        (lambda d: d.split(0)[0], "n must be at least 1, not 0"),
        (lambda d: d.train_test_split(1.5)[0], "above 0 and below 1, not 1.5"),
        (lambda d: d.train_test_split(20)[0], "below the number of rows (5), not 20"),
        (lambda d: d.random_shuffle(seed="x"), "must be a whole number"),
        (lambda d: data.from_items(3), "from_items() takes a list of items, not int"),
        (lambda d: data.from_pandas(3), "from_pandas() takes DataFrames, not int"),
    ],
)
def test_mistakes_in_functions_and_arguments_are_named(change: Any, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        change(data.range(5)).take_all()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"batch_size": 0}, "batch_size must be 1 or more, or None, not 0"),
        ({"prefetch_batches": -1}, "prefetch_batches must be 0 or more"),
        ({"local_shuffle_buffer_size": 0}, "local_shuffle_buffer_size must be 1 or more"),
        ({"batch_format": "foo"}, "batch_format must be one of"),
    ],
)
def test_mistakes_in_options_of_batches_are_named(options: Any, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        data.range(5).iter_batches(**options)
    with pytest.raises(ValueError, match="batch_size=None gives blocks as they are"):
        data.range(5).streaming_split(2)[0].iter_batches(batch_size=None)


def test_what_is_left_out_says_so_by_name() -> None:
    dataset = data.range(3)
    for name in ("sort", "groupby", "union", "write_parquet", "iter_tf_batches", "stats"):
        assert not hasattr(dataset, name)
        with pytest.raises(AttributeError, match=rf"rt has no rt.data.Dataset.{name} yet .*What"):
            getattr(dataset, name)
    said = r"'Dataset' object has no attribute 'random_shufle'; did you mean 'random_shuffle'\?"
    with pytest.raises(AttributeError, match=said):
        data.range(3).random_shufle()
    with pytest.raises(AttributeError, match="'Dataset' object has no attribute 'nothing'"):
        dataset.nothing  # noqa: B018
    with pytest.raises(NotImplementedError, match=r"num_gpus of map_batches\(\) yet"):
        dataset.map_batches(dict, num_gpus=1)
    with pytest.raises(NotImplementedError, match=r"expr of filter\(\)"):
        dataset.filter(expr="id > 1")
    with pytest.raises(NotImplementedError, match=r"stratify of train_test_split\(\)"):
        dataset.train_test_split(1, stratify="id")
    with pytest.raises(TypeError, match=r"argument 'batch_fmt'; did you mean 'batch_format'\?"):
        data.range(3).map_batches(dict, batch_fmt="pandas")
    with pytest.raises(TypeError, match=r"argument 'num_cpu'; did you mean 'num_cpus'\?"):
        dataset.map_batches(dict, num_cpu=1)
    with pytest.raises(AttributeError, match=r"rt has no rt\.data\.read_images yet"):
        data.read_images  # noqa: B018
    with pytest.raises(TypeError, match="use iter_rows"):
        iter(dataset)


def test_an_error_in_a_function_is_the_users_own() -> None:
    def fail(row: dict[str, Any]) -> dict[str, Any]:
        return {"x": 1 // (row["id"] - 2)}

    with pytest.raises(ZeroDivisionError) as caught:
        data.range(5).map(fail).take_all()
    assert caught.traceback[-1].name == "fail"


def test_threads_end_with_the_loop() -> None:
    def threads() -> list[str]:
        return [each.name for each in threading.enumerate() if each.name == "rt-data"]

    def slow(batch: Any) -> Any:
        return batch

    for _ in data.range(10_000_000).map_batches(slow, batch_size=100).iter_batches(batch_size=10):
        assert threads()
        break
    deadline = time.monotonic() + 10
    while threads() and time.monotonic() < deadline:
        time.sleep(0.001)
    assert not threads()


def test_a_slow_consumer_holds_the_producer_back() -> None:
    made: list[int] = []

    def counted(batch: Any) -> Any:
        made.append(1)
        return batch

    dataset = data.range(1000).map_batches(counted, batch_size=1)
    executor = _executor.ThreadExecutor(ahead_bytes_max=80)
    batches = iter(data.DataIterator(dataset._plan, executor=executor).iter_batches(batch_size=1))
    next(batches)
    deadline = time.monotonic() + 10
    while len(made) < 10 and time.monotonic() < deadline:
        time.sleep(0.001)
    before = len(made)
    assert 10 <= before < 30
    assert len(list(batches)) == 999


def test_batches_of_tensors() -> None:
    torch = pytest.importorskip("torch")
    rows = [{"x": [at], "y": [2 * at], "z": at % 2 == 0} for at in range(5)]
    dataset = data.from_items(rows)
    first, second = dataset.iter_torch_batches(batch_size=3)
    assert first["x"].shape == (3, 1) and first["x"].dtype == torch.int64
    assert second["y"].tolist() == [[6], [8]] and first["z"].dtype == torch.bool
    numbers = dataset.drop_columns(["z"])
    (batch,) = numbers.iter_torch_batches(dtypes=torch.float32)
    assert batch["x"].dtype == batch["y"].dtype == torch.float32
    (batch,) = numbers.iter_torch_batches(dtypes={"x": torch.float64})
    assert batch["x"].dtype == torch.float64 and batch["y"].dtype == torch.int64
    (batch,) = numbers.iter_torch_batches(collate_fn=lambda b: torch.as_tensor(len(b["x"])))
    assert batch == 5
    batch = next(iter(numbers.iter_torch_batches(batch_size=2, device="cpu")))
    batch["x"] += 1  # It belongs to the user.
    assert numbers.take(1)[0]["x"] == [0]
    assert len(list(dataset.iter_torch_batches(batch_size=2, drop_last=True))) == 2
    with pytest.raises(TypeError, match="column 's' has the type string, of which PyTorch"):
        list(data.from_items([{"s": "a"}]).iter_torch_batches())
    with pytest.raises(ValueError, match="collate_fn cannot be used with dtypes"):
        dataset.iter_torch_batches(collate_fn=len, dtypes=torch.float32)
    assert data.from_numpy(np.ones((2, 3), np.uint16)).take_batch()["data"].dtype == np.uint16


def test_a_loader_made_once_gives_each_epoch() -> None:
    (shard,) = data.range(20).random_shuffle(seed=3).streaming_split(1)
    loader = shard.iter_batches(batch_size=20)
    orders = [next(iter(loader))["id"].tolist() for _ in range(3)]
    assert len({tuple(each) for each in orders}) == 3
    assert [sorted(each) for each in orders] == [list(range(20))] * 3


def test_a_shard_can_be_materialized() -> None:
    shards = data.range(5).streaming_split(2)
    assert [each.materialize().count() for each in shards] == [3, 2]
    assert shards[0].schema().names == ["id"]  # type: ignore[union-attr]
    with pytest.raises(ValueError, match=r"must be an rt\.data\.Dataset, not list"):
        data.shard([1], 0, 1)
    with pytest.raises(ValueError, match="there is no rank 2 of 2"):
        data.shard(data.range(3), 2, 2)
