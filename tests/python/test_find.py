"""How an earlier search of a cluster is found, however many there are."""

from __future__ import annotations

from typing import Any

import pytest
from rt import _driver
from rt._errors import RtError
from rt.tune import _restore

COUNT, PAGE = 12, 5


class Head:
    """Experiments 1 to COUNT, each in a directory of its own, in pages."""

    def __init__(self, knows_pages: bool = True) -> None:
        self.knows_pages = knows_pages
        self.asked: list[int] = []

    def items(self) -> list[dict[str, Any]]:
        return [{"id": number, "name": f"e{number}"} for number in range(1, COUNT + 1)]

    def call(self, op: str, **fields: Any) -> Any:
        if op == "experiment_get":
            number = fields["experiment_id"]
            return {"id": number, "results_dir": f"/results/e{number}"}
        if op == "cluster_status":
            return {"experiments": self.items()}
        if not self.knows_pages:
            raise RtError(f"unknown op '{op}'", "INVALID_ARGUMENT")
        assert op == "experiment_list"
        self.asked.append(fields["from"])
        left = [item for item in self.items() if item["id"] >= fields["from"]]
        return {"items": left[:PAGE], "next": left[PAGE]["id"] if len(left) > PAGE else None}


def test_a_search_is_found_on_every_page(monkeypatch: pytest.MonkeyPatch) -> None:
    head = Head()
    monkeypatch.setattr(_driver, "get", lambda: head)
    for number in (1, 6, COUNT):
        found = _restore._search(f"/results/e{number}")
        assert found is not None and found["id"] == number
    assert head.asked[:3] == [0, 6, 11]
    assert _restore._search("/results/e99") is None


def test_a_head_without_pages_gives_the_whole_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_driver, "get", lambda: Head(knows_pages=False))
    found = _restore._search("/results/e7")
    assert found is not None and found["id"] == 7


def test_other_errors_of_the_list_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(Head):
        def call(self, op: str, **fields: Any) -> Any:
            raise RtError("you may not", "PERMISSION_DENIED")

    monkeypatch.setattr(_driver, "get", Refusing)
    with pytest.raises(RtError, match="you may not"):
        _restore._search("/results/e7")
