"""A head that asks a driver, and the records that it reads."""

from __future__ import annotations

from typing import Any

from rt.tune._advice import Advice, Advisors


class Head:
    """Answers driver_questions from a list of replies; keeps what was answered."""

    def __init__(self, answered_seq: int = 0) -> None:
        self.replies: list[dict[str, Any]] = []
        self.answers: list[dict[str, Any]] = []
        self.answered_seq = answered_seq

    def say(self, *entries: dict[str, Any], asked: tuple[int, ...] = (), **more: Any) -> None:
        wanted = [{"number": number, "params": {}} for number in asked]
        through = max([each["seq"] for each in entries], default=0)
        reply = {"entries": list(entries), "through": through, "more": False, "asked": wanted}
        self.replies.append({**reply, "ended": False, **more})

    def call(self, op: str, **fields: Any) -> Any:
        if op == "driver_attach":
            return {"session": 1, "answered_seq": self.answered_seq, "created_seq": 1}
        if op == "driver_questions":
            return self.replies.pop(0)
        assert op == "driver_answer"
        self.answers.append(fields)
        return {}


def advised(head: Head, **parts: Any) -> Advisors:
    advisors = Advisors(Advice(**parts), {})
    advisors.attach(head, 1)  # type: ignore[arg-type]
    return advisors


def entry(seq: int, kind: str, number: int = 0, **more: Any) -> dict[str, Any]:
    return {"seq": seq, "kind": kind, "number": number, "attempt": 1, **more}


def created(seq: int, number: int = 0) -> dict[str, Any]:
    return entry(seq, "trial", number, params={"x": number}, name=f"t{number}")


def row(seq: int, iteration: int, number: int = 0, **metrics: Any) -> dict[str, Any]:
    result = {"training_iteration": iteration, "done": False, **metrics}
    return entry(seq, "rows", number, rows=[{"seq": iteration, "result": result}])
