"""What the callbacks for boosted trees report, without any of their libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rt import _api
from rt.tune.integration._boosting import BoostingReports


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, Any]]:
    """(value, text of the model or None) of each row."""
    rows: list[tuple[int, Any]] = []

    def report(row: dict[str, Any], checkpoint: Any = None) -> None:
        model = Path(checkpoint.path, "model").read_text() if checkpoint else None
        rows.append((row["v"], model))

    monkeypatch.setattr(_api, "report", report)
    return rows


def train(reports: BoostingReports, knows_last: bool) -> None:
    def save(path: str) -> None:
        Path(path).write_text("saved")

    for number in (1, 2, 3):
        reports.round(number, {"v": number}, save, knows_last and number == 3)
    if not knows_last:
        reports.end(3, save)


def test_the_last_row_comes_once_with_the_model(reported: list[tuple[int, Any]]) -> None:
    train(BoostingReports(filename="model"), knows_last=True)
    assert reported == [(1, None), (2, None), (3, "saved")]


def test_frequency_says_which_rows_come_with_a_model(reported: list[tuple[int, Any]]) -> None:
    train(BoostingReports(filename="model", frequency=2, checkpoint_at_end=False), knows_last=True)
    assert reported == [(1, None), (2, "saved"), (3, None)]


def test_an_end_that_comes_as_a_surprise_repeats_the_row(reported: list[tuple[int, Any]]) -> None:
    train(BoostingReports(filename="model", frequency=2), knows_last=False)
    assert reported == [(1, None), (2, "saved"), (3, None), (3, "saved")]
    del reported[:]
    train(BoostingReports(filename="model", frequency=3), knows_last=False)
    assert reported == [(1, None), (2, None), (3, "saved")]
