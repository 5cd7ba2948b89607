"""What is pickled by value keeps the names of its files."""

from __future__ import annotations

import pickle
import traceback

import cloudpickle
from rt import _pickle


def _fails() -> None:
    raise KeyError("lost")


def test_a_traceback_names_the_file_and_shows_the_line() -> None:
    cloudpickle.register_pickle_by_value(__import__(__name__))
    try:
        copied = pickle.loads(_pickle.dumps(_fails))
    finally:
        cloudpickle.unregister_pickle_by_value(__import__(__name__))
    assert copied is not _fails
    try:
        copied()
    except KeyError as error:
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    assert __file__ in text
    assert 'raise KeyError("lost")' in text


def test_equal_values_have_equal_pickles() -> None:
    def make(k: int) -> object:
        return lambda: k

    assert _pickle.dumps(make(1)) == _pickle.dumps(make(1))
