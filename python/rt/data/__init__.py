"""rt.data: data sets as lazy plans over Arrow blocks, under the names of Ray Data.

Needs pyarrow and NumPy: `pip install 'rt[data]'`. Functions run in the process that takes the rows.
"""

import sys

from rt._paths import announce_missing
from rt.data._dataset import DataIterator, Dataset, MaterializedDataset, shard
from rt.data._position import read_positions, write_positions
from rt.data._read import (
    from_arrow,
    from_items,
    from_numpy,
    from_pandas,
    range,
    read_csv,
    read_json,
    read_parquet,
)
from rt.data._schema import Schema

__all__ = [
    "DataIterator",
    "Dataset",
    "MaterializedDataset",
    "Schema",
    "from_arrow",
    "from_items",
    "from_numpy",
    "from_pandas",
    "range",
    "read_csv",
    "read_json",
    "read_parquet",
    "read_positions",
    "shard",
    "write_positions",
]

announce_missing(sys.modules[__name__])
