"""The user's own modules travel as source, with the trainable that needs them.

A trial imports them from there, as they were when the search began, wherever it runs. A class of
such a module is therefore the same whether the trial received it or imports it. Objects that the
trial pickles by reference (torch.save, multiprocessing) can be read.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any, Optional

# Module -> its file and the text of the file; for a package without a file: directory, None.
Sources = dict[str, tuple[str, Optional[str]]]


class SourceImporter:
    """Finds and loads those modules; it is the first entry of sys.meta_path."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[ModuleSpec]:
        """The spec of a module that came with the trainable."""
        if name not in self._sources:
            return None
        file, text = self._sources[name]
        is_package = text is None or os.path.basename(file) == "__init__.py"
        loader: Any = self
        spec = ModuleSpec(name, loader, origin=file, is_package=is_package)
        if is_package:  # Modules that did not travel may exist here all the same.
            spec.submodule_search_locations = [file if text is None else os.path.dirname(file)]
        spec.has_location = text is not None
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        """None: Python creates the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Runs the module's text."""
        code = self.get_code(module.__name__)
        if code is not None:
            exec(code, module.__dict__)

    def get_code(self, name: str) -> Optional[CodeType]:
        """The compiled text; None for a package without a file."""
        file, text = self._sources[name]
        return compile(text, file, "exec", dont_inherit=True) if text is not None else None

    def get_source(self, name: str) -> Optional[str]:
        """The text, for tracebacks: the file may be on another machine."""
        return self._sources[name][1]


def install(sources: Optional[Sources]) -> None:
    """Makes modules that came with the trainable importable from `sources`."""
    if sources:
        sys.meta_path.insert(0, SourceImporter(sources))
