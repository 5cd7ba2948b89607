"""PyTorch's import takes two thirds of the time in processes of tests, of which hundreds import it.

tests/python/venv.sh puts this module into build/venv, where each interpreter imports it at its
start. It does something where tests/run.sh has set TESTS_QUICK_TORCH. The collector of reference
cycles does not look at the objects of PyTorch's modules then, neither as they are made nor at the
process's end, where that takes a second: what rt's fork servers and rt.elastic do as well.
"""

import gc
import os
import sys

NAMES = ("torch", "torch._dynamo")


class Finder:
    """Finds PyTorch as Python itself does, and imports it without the collector."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in NAMES:
            return None
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module):
            is_on = gc.isenabled()
            gc.disable()
            try:
                run(module)
            finally:
                if is_on:
                    gc.enable()
            gc.freeze()

        spec.loader.exec_module = exec_module
        return spec


if os.environ.get("TESTS_QUICK_TORCH"):
    sys.meta_path.insert(0, Finder)
