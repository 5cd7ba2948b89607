"""cloudpickle under the name that scripts written for Ray import it by."""

from cloudpickle import (
    CloudPickler,
    Pickler,
    dump,
    dumps,
    load,
    loads,
    register_pickle_by_value,
    unregister_pickle_by_value,
)

__all__ = [
    "CloudPickler",
    "Pickler",
    "dump",
    "dumps",
    "load",
    "loads",
    "register_pickle_by_value",
    "unregister_pickle_by_value",
]
