"""Methods that Ray Data has and rt.data does not have yet, and the errors for using them."""

from __future__ import annotations

import difflib
from typing import NoReturn

_OPERATIONS = (
    "map_batches, filter and random_shuffle; for a result that fits in memory, to_pandas() or "
    "to_arrow(), the operation of pandas or pyarrow, then from_pandas() or from_arrow()"
)
_OUTPUTS = "iter_batches(batch_format='pyarrow') with a writer of pyarrow or pandas in the loop"
_FORMATS = "iter_torch_batches, or iter_batches, whose dicts of arrays other libraries take"
_FACTS = "count(), schema() and num_blocks()"
_METHODS = [
    (
        _OPERATIONS,
        "sort groupby repartition union zip join unique aggregate sum min max mean std mix "
        "random_sample randomize_block_order split_proportionately with_column summary "
        "streaming_train_test_split",
    ),
    (
        _OUTPUTS,
        "write_csv write_json write_parquet write_numpy write_images write_tfrecords "
        "write_webdataset write_sql write_mongo write_bigquery write_datasink write_iceberg "
        "write_lance write_clickhouse write_snowflake write_delta",
    ),
    (
        _FORMATS,
        "iter_tf_batches to_tf iter_jax_batches to_torch to_dask to_spark to_mars to_modin to_daft "
        "to_random_access_dataset",
    ),
    (
        _FACTS,
        "stats size_bytes input_files explain context copy name set_name lazy get_dataset_id "
        "get_internal_block_refs iter_internal_ref_bundles to_arrow_refs to_numpy_refs "
        "to_pandas_refs serialize_lineage deserialize_lineage has_serializable_lineage",
    ),
]


def refuse(kind: str, name: str, known: list[str]) -> NoReturn:
    """Raises AttributeError for an attribute of a class; for a name of Ray with what works."""
    for instead, names in _METHODS:
        if name in names.split():
            raise AttributeError(
                f"rt has no rt.data.{kind}.{name} yet (in Ray: a method). What works now: {instead}"
            )
    near = difflib.get_close_matches(name, known, 1, 0.75)
    text = f"; did you mean {near[0]!r}?" if near and not name.startswith("_") else ""
    raise AttributeError(f"{kind!r} object has no attribute {name!r}{text}")
