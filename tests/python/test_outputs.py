"""What trials wrote is copied into their results directories when an embedded cluster ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rt import _driver, _errors
from rt.tune import _outputs


class Store:
    """Answers trial_get with each of `passing` in turn, and pulls a file named as its manifest."""

    def __init__(self, *passing: dict[str, Any]) -> None:
        self.passing = list(passing)

    def call(self, op: str, **fields: Any) -> Any:
        if op == "trial_get":
            return self.passing.pop(0)
        target = Path(fields["target"])
        target.mkdir(exist_ok=True)
        (target / fields["manifest"]).write_text("")
        return {}


def saved(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "outputs").glob("*"))


def test_outputs_are_waited_for_and_take_the_place_of_older_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {"outputs_pending": False, "outputs": {"manifest": "m1", "parts": ["m2"]}}
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs" / "old").write_text("")
    store = Store({"outputs_pending": True}, kept)
    monkeypatch.setattr(_driver, "get", lambda: store)
    _outputs.save_outputs("1/0", {"outputs_pending": True}, str(tmp_path))
    assert saved(tmp_path) == ["m1", "m2"] and store.passing == []


def test_a_trial_that_wrote_nothing_has_no_outputs(tmp_path: Path) -> None:
    for detail in ({}, {"outputs": None}, {"outputs": {"manifest": None, "parts": []}}):
        _outputs.save_outputs("1/0", detail, str(tmp_path))
    assert not (tmp_path / "outputs").exists()


def test_outputs_that_never_arrive_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_outputs, "_KEPT_WITHIN_S", 0.0)
    with pytest.raises(_errors.RtError, match="not in the store"):
        _outputs.save_outputs("1/0", {"outputs_pending": True}, str(tmp_path))
