"""Options of Ray's methods that say where work runs, and what is refused by name."""

from __future__ import annotations

import difflib
import sys
from typing import Any

# They change how soon a result is there, never what it is. Functions run in the consumer's process.
_WHERE = {
    "compute", "concurrency", "max_calls", "memory", "num_blocks", "num_cpus",
    "override_num_blocks", "parallelism", "resources", "scheduling_strategy",
}  # fmt: skip
_REFUSED = {
    "num_gpus": "a function runs in the process that takes the batches; move them to its gpu there",
    "accelerator_type": "a function runs in the process that takes the batches",
    "label_selector": "a function runs in the process that takes the batches",
    "runtime_env": "a function runs in the process that takes the batches, in its environment",
    "udf_modifying_row_count": "rows are always counted after a function",
    "partition_filter": "give the paths that are wanted",
    "partitioning": "add the columns with add_column",
    "include_paths": "read each file by itself, and add its path with add_column",
    "shuffle": "random_shuffle(seed=...) shuffles rows, also between files",
    "tensor_column_schema": "turn the column into arrays with map_batches",
    "arrow_open_stream_args": "give read_options, parse_options and convert_options of pyarrow",
    "catalog": "give the paths of the files",
    "dynamic_uid": "leave it out",
    "meta_provider": "leave it out: sizes come from the file system",
    "locality_hints": "leave it out: each rank reads its share where it runs",
    "stratify": "split the data set by filter(), class by class",
}


def check_options(method: str, options: dict[str, Any]) -> None:
    """Raises NotImplementedError for what is left out, and TypeError for what does not exist."""
    for name, value in options.items():
        if name in _WHERE:
            continue
        if name in _REFUSED:
            if value is None or value is False or value == 0:
                continue
            raise NotImplementedError(
                f"rt has no {name} of {method}() yet (in Ray: an option). What works now: "
                f"{_REFUSED[name]}"
            )
        caller = sys._getframe(1).f_code
        own = caller.co_varnames[: caller.co_argcount + caller.co_kwonlyargcount]
        near = difflib.get_close_matches(name, [*own, *_WHERE, *_REFUSED], 1, 0.75)
        text = f"; did you mean {near[0]!r}?" if near else ""
        raise TypeError(f"{method}() got an unexpected keyword argument {name!r}{text}")
