"""`wrapped`: a search whose function is wrapped, over the same search with the bare function."""

from __future__ import annotations

import os
import pathlib
import shutil
import statistics
import tempfile

from digits import two_cores
from rt_cluster import interpreter, note, print_bench, python_env, wall_of

PAIRS = 5
SCRIPT = pathlib.Path(__file__).resolve().parent / "wrapped_search.py"


def wrapped(with_peers: bool) -> None:
    """Pairs in turns: what else the machine does then counts for both of a pair."""
    home = pathlib.Path(tempfile.mkdtemp(prefix="rt-bench-"))
    env = {**os.environ, **python_env(), "RT_HOME": str(home / "home"),
           "RT_RESULTS": str(home / "results"), "RT_CLUSTER": ""}
    search = [*two_cores(), interpreter(), str(SCRIPT)]
    try:
        wall_of([*search, "bare"], home, env)  # What is read for the first time counts for nobody.
        pairs = [(wall_of([*search, "bare"], home, env), wall_of([*search, "wrapped"], home, env))
                 for _ in range(PAIRS)]
    finally:
        shutil.rmtree(home, ignore_errors=True)
    ratios = [slow / fast for fast, slow in pairs]
    print_bench("wrapped", statistics.median(ratios), "x_bare_function", "<=1.15", "none")
    note(f"median of {PAIRS} pairs; bare/wrapped: " +
         " ".join(f"{fast:.2f}/{slow:.2f}" for fast, slow in pairs) + " s")
