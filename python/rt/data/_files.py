"""Sources that are files: CSV, lines of JSON, and Parquet.

A block is a row group of Parquet, or a range of lines of a large text file. A text file that
cannot be read from its middle (compressed, or with line ends in its values) is one block, which is
read as a stream.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any, Optional

from rt.data._arrow import BLOCK_BYTES_MAX, Table, cut, pa
from rt.data._formats import table_of_rows
from rt.data._paths import File, read_lines, with_partitions
from rt.data._source import Source

_RANGE_BYTES = 16 << 20  # Of text; the rows need up to twice that in memory.
_TEXT_GROWTH = 2
_NULL_HINT = (
    "The types are those of the first 16 MB of the file: name the column's type in "
    "convert_options=pyarrow.csv.ConvertOptions(column_types={...})"
)


class FileSource(Source):
    """Files of one kind. `blocks` are (file, start, stop): bytes, or a row group and its end."""

    def __init__(self, title: str, filesystem: Any, files: Sequence[File]) -> None:
        self.title = title
        self.filesystem = filesystem
        self.files = list(files)
        self.blocks: list[tuple[int, int, int]] = []

    def block_count(self) -> int:
        return len(self.blocks)

    def bytes_estimate(self) -> int:
        return _TEXT_GROWTH * sum(file.size for file in self.files)

    def identity(self) -> str:
        return "\n".join(f"{os.path.basename(file.path)} {file.size}" for file in self.files)

    def read(self, block: int) -> Iterator[Table]:
        number, start, stop = self.blocks[block]
        file = self.files[number]
        try:
            for table in self.tables(number, start, stop):
                yield from cut(with_partitions(table, file))
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise ValueError(f"{file.path} cannot be read: {error}") from None

    def tables(self, number: int, start: int, stop: int) -> Iterator[Table]:
        """The tables of a block of file `number`."""
        raise NotImplementedError


def line_ranges(files: Sequence[File], can_split: bool) -> list[tuple[int, int, int]]:
    """The blocks of text files: ranges of about 16 MB, or whole files."""
    blocks = []
    for number, file in enumerate(files):
        step = _RANGE_BYTES if can_split and not file.is_compressed() else max(1, file.size)
        for start in range(0, file.size, step):
            blocks.append((number, start, min(start + step, file.size)))
    return blocks


class CsvSource(FileSource):
    """CSV files. The options are those of pyarrow.csv."""

    def __init__(self, filesystem: Any, files: Sequence[File], options: dict[str, Any]) -> None:
        super().__init__("ReadCSV", filesystem, files)
        self.options = options
        read, parse = options.get("read_options"), options.get("parse_options")
        self.can_split = (read is None or read.encoding in ("utf8", "utf-8")) and (
            parse is None or not parse.newlines_in_values
        )
        self.blocks = line_ranges(files, self.can_split)
        self._first: dict[int, tuple[list[str], Any]] = {}  # File -> (its columns, the schema).

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_first": {}}

    def tables(self, number: int, start: int, stop: int) -> Iterator[Table]:
        from pyarrow import csv

        file = self.files[number]
        if not self.can_split or file.is_compressed():
            begin = self.filesystem.open_input_stream
            with begin(file.path) as stream, csv.open_csv(stream, **self.options) as reader:
                for batch in reader:
                    yield pa.Table.from_batches([batch])
            return
        text = read_lines(self.filesystem, file.path, start, stop)
        if start == 0:
            yield csv.read_csv(io.BytesIO(text), **self.options)
        elif text:
            yield self._later(number, text)

    def _later(self, number: int, text: bytes) -> Table:
        """Lines after the first range: names and types come from that."""
        from pyarrow import csv

        names, schema = self._schema(number)
        given = self.options.get("convert_options")
        convert = csv.ConvertOptions() if given is None else _copy(given, csv.ConvertOptions)
        convert.column_types = {
            field.name: field.type for field in schema if not pa.types.is_null(field.type)
        }
        try:
            return csv.read_csv(
                io.BytesIO(text),
                read_options=csv.ReadOptions(column_names=names),
                parse_options=self.options.get("parse_options"),
                convert_options=convert,
            )
        except pa.ArrowInvalid as error:
            raise ValueError(f"{self.files[number].path}: {error}. {_NULL_HINT}") from None

    def _schema(self, number: int) -> tuple[list[str], Any]:
        if number not in self._first:
            from pyarrow import csv

            path, options = self.files[number].path, dict(self.options)
            text = read_lines(self.filesystem, path, 0, _RANGE_BYTES)
            schema = csv.read_csv(io.BytesIO(text), **options).schema
            options.pop("convert_options", None)
            names = csv.read_csv(io.BytesIO(_head(text)), **options).column_names
            self._first[number] = names, schema
        return self._first[number]


def _head(text: bytes) -> bytes:
    """The first lines, enough for the names of the columns."""
    return text[: text.rfind(b"\n", 0, 1 << 20) + 1] or text


def _copy(options: Any, kind: type) -> Any:
    names = [name for name in dir(kind) if not name.startswith("_")]
    values = {name: getattr(options, name) for name in names}
    return kind(**{name: value for name, value in values.items() if not callable(value)})


class JsonSource(FileSource):
    """Files with a JSON object in each line, or with one list of objects."""

    def __init__(self, filesystem: Any, files: Sequence[File], options: dict[str, Any]) -> None:
        super().__init__("ReadJSON", filesystem, files)
        self.options = options
        parse = options.get("parse_options")
        self.blocks = line_ranges(files, parse is None or not parse.newlines_in_values)
        self.blocks = [each for each in self.blocks if each[1] == 0 or not self._is_list(each[0])]

    def _is_list(self, number: int) -> bool:
        file = self.files[number]
        if file.is_compressed():
            return False
        with self.filesystem.open_input_file(file.path) as stream:
            return bytes(stream.read(64)).lstrip()[:1] == b"["

    def tables(self, number: int, start: int, stop: int) -> Iterator[Table]:
        file = self.files[number]
        if not file.is_compressed() and not self._is_list(number):
            text = read_lines(self.filesystem, file.path, start, stop)
            if text.strip():
                yield self._lines(text)
            return
        with self.filesystem.open_input_stream(file.path) as stream:
            text = bytes(stream.read(_RANGE_BYTES))
            if text.lstrip()[:1] == b"[":
                yield _table_of_list(text + bytes(stream.read()))
                return
            for lines in _whole_lines(text, stream):
                yield self._lines(lines)

    def _lines(self, text: bytes) -> Table:
        from pyarrow import json as arrow_json

        options = {"read_options": arrow_json.ReadOptions(block_size=len(text) + 1)}
        return arrow_json.read_json(io.BytesIO(text), **{**options, **self.options})


def _whole_lines(text: bytes, stream: Any) -> Iterator[bytes]:
    """The lines of `text` and of the rest of the stream, about 16 MB of them at a time."""
    while True:
        more = bytes(stream.read(_RANGE_BYTES))
        end = text.rfind(b"\n") + 1 if more else len(text)
        if text[:end].strip():
            yield text[:end]
        text = text[end:] + more
        if not more:
            return


def _table_of_list(text: bytes) -> Table:
    try:
        rows = json.loads(text)
    except ValueError as error:
        raise pa.ArrowInvalid(f"it begins with '[' and is no JSON list: {error}") from None
    for row in rows:
        if not isinstance(row, dict):
            raise pa.ArrowInvalid(f"its list must hold objects, not {type(row).__name__}")
    return table_of_rows(rows)


class ParquetSource(FileSource):
    """Parquet files. A block is a row group; a large one is read in parts."""

    def __init__(
        self, filesystem: Any, files: Sequence[File], columns: Optional[Sequence[str]]
    ) -> None:
        super().__init__("ReadParquet", filesystem, files)
        self.columns = None if columns is None else list(columns)
        self._rows: list[int] = []
        self._bytes: list[int] = []
        self._schema: Optional[Any] = None
        self._open: Optional[tuple[int, Any]] = None  # The file that was read last.
        for number in range(len(self.files)):
            self._add(number)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": None}

    def _add(self, number: int) -> None:
        """Reads the footer of a file."""
        try:
            opened = self._file(number)
        except pa.ArrowException as error:
            raise ValueError(f"{self.files[number].path} is no Parquet file: {error}") from None
        found = opened.metadata
        for group in range(found.num_row_groups):
            self.blocks.append((number, group, group + 1))
            self._rows.append(found.row_group(group).num_rows)
            self._bytes.append(found.row_group(group).total_byte_size)
        if self._schema is None:
            self._schema = self._chosen(opened.schema_arrow, self.files[number])

    def _chosen(self, schema: Any, file: File) -> Any:
        names = schema.names if self.columns is None else self.columns
        missing = [name for name in names if name not in schema.names]
        if missing:
            raise ValueError(
                f"{file.path} has no column {', '.join(map(repr, missing))}; its columns are "
                f"{', '.join(map(repr, schema.names))}"
            )
        empty = pa.schema([schema.field(name) for name in names]).empty_table()
        return with_partitions(empty, file).schema.remove_metadata()

    def _file(self, number: int) -> Any:
        from pyarrow import parquet

        if self._open is None or self._open[0] != number:
            path = self.files[number].path
            self._open = number, parquet.ParquetFile(self.filesystem.open_input_file(path))
        return self._open[1]

    def counts(self) -> Optional[list[int]]:
        return self._rows

    def schema(self) -> Optional[Any]:
        return self._schema

    def bytes_estimate(self) -> int:
        return sum(self._bytes)

    def tables(self, number: int, start: int, stop: int) -> Iterator[Table]:
        file = self._file(number)
        found = file.metadata.row_group(start)
        if found.total_byte_size <= BLOCK_BYTES_MAX:
            yield file.read_row_group(start, columns=self.columns).replace_schema_metadata()
            return
        rows = max(1, found.num_rows * BLOCK_BYTES_MAX // found.total_byte_size)
        for batch in file.iter_batches(rows, row_groups=[start], columns=self.columns):
            yield pa.Table.from_batches([batch]).replace_schema_metadata()
