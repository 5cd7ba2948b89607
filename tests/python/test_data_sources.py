"""Sources of data sets: files of all kinds, cut anywhere, and values in memory."""

from __future__ import annotations

import gzip
import json
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from rt import data
from rt.data import _files


def frame(rows: int) -> pd.DataFrame:
    return pd.DataFrame({
        "id": range(rows), "x": [at / 8 for at in range(rows)],
        "name": [f"name {at} é" for at in range(rows)],
    })  # fmt: skip


@pytest.mark.parametrize("range_bytes", [10, 64, 1000, 1 << 20])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("final", [True, False])
def test_lines_are_read_once_wherever_a_file_is_cut(
    range_bytes: int, ending: str, final: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_files, "_RANGE_BYTES", range_bytes)
    expected = frame(60)
    for kind, text in [
        ("csv", expected.to_csv(index=False)),
        ("json", expected.to_json(orient="records", lines=True)),
    ]:
        text = text.replace("\n", ending)
        text = text if final else text.rstrip()
        path = tmp_path / f"t.{kind}"
        path.write_bytes(text.encode())
        read = {"csv": data.read_csv, "json": data.read_json}[kind]
        dataset = read(str(path))
        assert dataset.num_blocks() == -(-path.stat().st_size // range_bytes)
        pd.testing.assert_frame_equal(dataset.to_pandas(), expected, check_dtype=False)
        assert dataset.count() == 60


def test_types_of_a_csv_file_come_from_its_first_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_files, "_RANGE_BYTES", 40)
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1,2\n" * 20 + "1.5,x\n")
    with pytest.raises(ValueError, match=r"t\.csv.*name the column's type in convert_options"):
        data.read_csv(path).take_all()
    types = {"a": pa.float64(), "b": pa.string()}
    rows = data.read_csv(path, convert_options=pc.ConvertOptions(column_types=types)).take_all()
    assert rows[0] == {"a": 1.0, "b": "2"} and rows[-1] == {"a": 1.5, "b": "x"}


def test_options_of_pyarrow_apply_to_every_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_files, "_RANGE_BYTES", 50)
    path = tmp_path / "t.csv"
    path.write_text("a comment\na;b;c\n" + "".join(f"{n};{n * 2};x\n" for n in range(50)))
    dataset = data.read_csv(
        path, read_options=pc.ReadOptions(skip_rows=1),
        parse_options=pc.ParseOptions(delimiter=";"),
        convert_options=pc.ConvertOptions(include_columns=["b", "a"]),
    )  # fmt: skip
    assert dataset.take_all() == [{"b": n * 2, "a": n} for n in range(50)]


def test_compressed_files_and_values_with_line_ends(tmp_path: Path) -> None:
    text = frame(30).to_csv(index=False)
    with gzip.open(tmp_path / "t.csv.gz", "wt") as file:
        file.write(text)
    assert data.read_csv(tmp_path / "t.csv.gz").count() == 30
    with gzip.open(tmp_path / "t.json.gz", "wt") as file:
        file.write('{"a": 1}\n{"a": 2}\n')
    assert data.read_json(tmp_path / "t.json.gz").take_all() == [{"a": 1}, {"a": 2}]
    with gzip.open(tmp_path / "list.json.gz", "wt") as file:
        file.write('[{"a": 1},\n {"a": 2}]')
    assert data.read_json(tmp_path / "list.json.gz").take_all() == [{"a": 1}, {"a": 2}]
    (tmp_path / "v.csv").write_text('a,b\n"x\ny",1\n')
    options = pc.ParseOptions(newlines_in_values=True)
    rows = data.read_csv(tmp_path / "v.csv", parse_options=options).take_all()
    assert rows == [{"a": "x\ny", "b": 1}]


@pytest.mark.parametrize("step", [1, 7, 40, 10_000])
def test_compressed_lines_are_read_in_parts(
    step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_files, "_RANGE_BYTES", step)
    with gzip.open(tmp_path / "t.json.gz", "wt") as file:
        file.write("\n".join(json.dumps({"a": at}) for at in range(100)))
    assert data.read_json(tmp_path / "t.json.gz").take_batch(100)["a"].tolist() == list(range(100))


def test_rows_are_counted_without_functions_that_keep_them(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n2\n3\n")
    calls: list[Any] = []
    dataset = data.read_csv(tmp_path / "t.csv").map(lambda row: calls.append(row) or row)
    assert dataset.count() == 3 and calls == []


def test_json_lists_and_lines_with_other_keys(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text(json.dumps([{"a": 1}, {"a": 2, "b": "x"}]))
    rows = data.read_json(tmp_path / "list.json").take_all()
    assert rows == [{"a": 1, "b": None}, {"a": 2, "b": "x"}]
    (tmp_path / "bad.json").write_text("[1, 2]")
    with pytest.raises(ValueError, match=r"bad\.json cannot be read: its list must hold objects"):
        data.read_json(tmp_path / "bad.json").take_all()


def test_parquet_columns_groups_and_partitions(tmp_path: Path) -> None:
    for year in (2023, 2024):
        folder = tmp_path / f"year={year}"
        folder.mkdir()
        pq.write_table(pa.Table.from_pandas(frame(25)), folder / "a.parquet", row_group_size=10)
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "notes.txt").touch()
    dataset = data.read_parquet(tmp_path, columns=["id"])
    assert dataset.num_blocks() == 6 and dataset.count() == 50
    assert dataset.schema().names == ["id", "year"]  # type: ignore[union-attr]
    assert dataset.take(1) == [{"id": 0, "year": "2023"}]
    assert dataset.take_all()[-1] == {"id": 24, "year": "2024"}
    with pytest.raises(ValueError, match="has no column 'z'; its columns are 'id', 'x', 'name'"):
        data.read_parquet(tmp_path, columns=["z"])


def test_a_large_row_group_is_read_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_files, "BLOCK_BYTES_MAX", 1000)
    pq.write_table(pa.table({"id": range(1000)}), tmp_path / "t.parquet")
    dataset = data.read_parquet(tmp_path / "t.parquet")
    tables = list(dataset._plan.source().read(0))
    assert len(tables) > 5 and max(each.nbytes for each in tables) <= 1000
    assert [row["id"] for row in dataset.take_all()] == list(range(1000))


def test_missing_and_broken_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no file or directory .*/nowhere"):
        data.read_csv(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"no file named \*\.parquet in "):
        data.read_parquet(tmp_path)
    assert data.read_csv(tmp_path / "nowhere", ignore_missing_paths=True).count() == 0
    (tmp_path / "t.parquet").write_text("not at all")
    with pytest.raises(ValueError, match=r"t\.parquet is no Parquet file"):
        data.read_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3\n")
    with pytest.raises(ValueError, match=r"t\.csv cannot be read: CSV parse error"):
        data.read_csv(tmp_path / "t.csv").take_all()


def test_paths_may_be_uris_and_lists(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text(f"v\n{name}\n")
    uris = [f"file://{tmp_path}/a.csv", f"file://{tmp_path}/b.csv"]
    assert data.read_csv(uris).take_all() == [{"v": "a"}, {"v": "b"}]


def test_rows_have_rays_columns_and_types() -> None:
    assert data.from_items([1, 2]).take() == [{"item": 1}, {"item": 2}]
    assert data.range(2).take_all() == [{"id": 0}, {"id": 1}]
    assert data.from_items([{"a": 1}, {"b": "x"}]).take_all() == [
        {"a": 1, "b": None}, {"a": None, "b": "x"}]  # fmt: skip
    row = {"a": 1, "b": 1.5, "c": "x", "d": [1, 2], "f": {"z": 1}, "g": b"1", "h": None, "i": True}
    (found,) = data.from_items([row]).take()
    assert found == row and [type(each) for each in found.values()] == list(map(type, row.values()))
    batch = data.from_items([{"a": 1, "b": None}, {"a": None, "b": "x"}]).take_batch()
    assert batch["a"].dtype == np.float64 and np.isnan(batch["a"][1])
    assert batch["b"].tolist() == [None, "x"]
    mixed = data.from_items([{"a": 1}, {"a": 2.5}]).take_batch()["a"]
    assert mixed.dtype == np.float64 and mixed.tolist() == [1.0, 2.5]
    ragged = data.from_items([{"d": [1, 2]}, {"d": [1]}]).take_batch()["d"]
    assert ragged.dtype == object and [each.tolist() for each in ragged] == [[1, 2], [1]]


def test_arrays_of_one_shape_are_tensors() -> None:
    values = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
    for dataset in (
        data.from_numpy(values),
        data.from_numpy([values[:1], values[1:]]),
        data.from_items([{"data": each} for each in values]),
        data.range(4).map(lambda row: {"data": values[row["id"]]}),
        data.range(4).map_batches(lambda batch: {"data": values[batch["id"]]}),
    ):
        batch = dataset.random_shuffle(seed=0).filter(lambda row: True).take_batch()
        assert batch["data"].shape == (4, 3, 2) and batch["data"].dtype == np.float32
        assert (dataset.take_batch()["data"] == values).all()
        assert (dataset.take_all()[2]["data"] == values[2]).all()
        assert dataset.take_batch(batch_format="pandas")["data"][3].shape == (3, 2)
    assert "tensor<float, (3, 2)>" in repr(data.from_numpy(values).schema())
    flags = np.array([[True, False], [False, True]])
    assert (data.from_numpy(flags).take_batch()["data"] == flags).all()


def test_frames_and_tables_keep_their_rows() -> None:
    frames = [frame(3), frame(2)]
    assert data.from_pandas(frames).count() == 5
    dates = pd.DataFrame({"t": pd.to_datetime(["2020-01-01", "2021-02-03"])}, index=[7, 9])
    assert data.from_pandas(dates).take_batch()["t"].dtype.kind == "M"
    assert data.from_pandas(dates).columns() == ["t"]
    table = pa.table({"a": [1, 2]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    assert data.from_arrow([table, sink.getvalue().to_pybytes()]).take_batch()["a"].tolist() == [
        1, 2, 1, 2]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: data.range(-1), "range() takes a number of rows, 0 or more, not -1"),
        (lambda: data.from_items([{"a": 1}, {"a": "x"}]), "column 'a' has values of the types int"),
        (lambda: data.from_items([{"a": object()}]), "column 'a' has values of the types object"),
        (lambda: data.from_items([{}]), "a row must have at least one column"),
        (lambda: data.from_items([{1: 2}]), "a row's keys must be text, not 1"),
        (lambda: data.from_numpy([3]), "from_numpy() takes ndarrays"),
        (lambda: data.from_pandas([3]), "from_pandas() takes DataFrames, not int"),
        (lambda: data.from_arrow([3]), "from_arrow() takes pyarrow.Tables, not int"),
        (lambda: data.read_csv([]), "name at least one path to read"),
    ],
)
def test_bad_values_are_refused(call: Any, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        call()


def test_a_plan_travels_to_another_process(tmp_path: Path) -> None:
    from rt._pickle import dumps

    pq.write_table(pa.table({"id": range(40)}), tmp_path / "t.parquet", row_group_size=9)
    scale = 3
    dataset = (
        data.read_parquet(tmp_path / "t.parquet")
        .map_batches(lambda batch: {"id": batch["id"] * scale})
        .random_shuffle(seed=1)
    )
    iterators = pickle.loads(dumps(dataset.streaming_split(2)))
    rows = [row["id"] for each in iterators for row in each.iter_rows()]
    assert rows == [row["id"] for row in dataset.take_all()]
    assert sorted(rows) == list(range(0, 120, 3))
    small = data.from_arrow(pa.table({"a": np.zeros(1 << 20)}).slice(5, 3))
    assert len(dumps(small)) < 100_000
