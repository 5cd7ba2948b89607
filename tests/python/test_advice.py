"""What the driver answers when the head asks: searchers, schedulers, stoppers, callbacks."""

from __future__ import annotations

import random
from typing import Any

import pytest
from asking_head import Head, advised, created, entry, row
from rt import tune
from rt._computed import computed, resolve
from rt._encode import encode_space, json_config
from rt._space import Domain
from rt._values import restore_values
from rt.tune import stopper
from rt.tune._advice import Advice
from rt.tune._experiment import Request, advice_of, build_spec
from rt.tune._progress import Progress
from rt.tune.result import SHOULD_CHECKPOINT
from rt.tune.schedulers import FIFOScheduler, TrialScheduler
from rt.tune.search import BasicVariantGenerator, ConcurrencyLimiter, Repeater, Searcher


class Noting(TrialScheduler):
    """Stops at iteration 2, pauses at 1 when asked to; notes what it hears."""

    def __init__(self, pauses: bool = False) -> None:
        self.heard: list[Any] = []
        self.pauses = pauses

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        assert isinstance(trial, tune.Trial)
        self.heard.append(("add", trial.number))

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        iteration = result["training_iteration"]
        self.heard.append((trial.number, iteration))
        if iteration == 1 and self.pauses:
            return TrialScheduler.PAUSE
        return TrialScheduler.STOP if iteration >= 2 else TrialScheduler.CONTINUE

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:
        self.heard.append(("complete", trial.number))

    def on_trial_error(self, tune_controller: Any, trial: Any) -> None:
        self.heard.append(("error", trial.number))

    def on_trial_remove(self, tune_controller: Any, trial: Any) -> None:
        self.heard.append(("remove", trial.number))


class Calls(tune.Callback):
    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("on_trial") or name in ("setup", "on_experiment_end", "on_checkpoint"):
            self.calls.append(name)
        return super().__getattribute__(name)


def test_a_scheduler_sees_rows_in_order_and_stops_a_trial() -> None:
    head, scheduler = Head(), Noting()
    advisors = advised(head, scheduler=scheduler)
    head.say(created(2), entry(3, "start", rank=0), row(4, 1))
    head.say(row(5, 2))
    head.say(entry(6, "attempt_end", outcome="ENDED", reason="", goes_on=False),
             entry(7, "end", failed=False, completed=False, reason=""))  # fmt: skip
    for _ in range(3):
        advisors.poll(0)
    assert scheduler.heard == [("add", 0), (0, 1), (0, 2)]
    assert [(a["from"], a["through"]) for a in head.answers] == [(0, 4), (4, 5), (5, 7)]
    assert head.answers[0]["stops"] == [] and head.answers[2]["stops"] == []
    stop = head.answers[1]["stops"][0]
    assert (stop["number"], stop["early"], stop["reason"]) == (0, True, "Noting stopped it")


def test_how_a_trial_ends_is_told_once() -> None:
    head, scheduler, calls = Head(), Noting(), Calls()
    advisors = advised(head, scheduler=scheduler, callbacks=[calls])
    head.say(*(created(2 + n, n) for n in range(3)),
             entry(5, "start", 0, rank=0), row(6, 1, 0, done=True),
             entry(7, "start", 1, rank=0, restored=True),
             entry(8, "checkpoint", 1, manifest="m", iteration=1),
             entry(9, "attempt_end", 1, outcome="FAILED", reason="boom", goes_on=True),
             entry(10, "attempt_end", 1, outcome="FAILED", reason="boom", goes_on=False),
             entry(11, "end", 1, failed=True, completed=False, reason="boom"),
             entry(12, "end", 0, failed=False, completed=True, reason=""),
             entry(13, "end", 2, failed=False, completed=False, reason="by hand"))  # fmt: skip
    head.say(ended=True)
    advisors.poll(0)
    advisors.poll(0)
    assert scheduler.heard[3:] == [("error", 1), ("complete", 0), ("remove", 2)]
    assert calls.calls == [
        "setup", "on_trial_start", "on_trial_result", "on_trial_start", "on_trial_restore",
        "on_trial_save", "on_checkpoint", "on_trial_recover", "on_trial_error",
        "on_trial_complete", "on_trial_complete", "on_experiment_end",
    ]  # fmt: skip
    assert advisors.ended and len(head.answers) == 1


def test_a_callbacks_trial_says_what_was_drawn_and_that_it_is_done() -> None:
    class Looks(tune.Callback):
        def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
            self.trial = trial

    head, looks, space = Head(), Looks(), {"x": {"grid": [0, 1]}, "k": 5}
    advisors = advised(head, callbacks=[looks], info={"trainable": "f"}, space=space)
    head.say(entry(2, "trial", params={"x": 1, "k": 5}, name="t"), entry(3, "start", rank=0),
             row(4, 1, v=2), entry(5, "end", failed=False, completed=True, reason=""))  # fmt: skip
    advisors.poll(0)
    assert looks.trial.last_result["done"] is True and looks.trial.trainable_name == "f"
    assert (looks.trial.evaluated_params, looks.trial.experiment_tag) == ({"x": 1}, "0_x=1")


def test_hooks_are_called_by_keyword_and_each_record_is_an_iteration() -> None:
    class Hears(tune.Callback):
        def __init__(self) -> None:
            self.heard: list[Any] = []

        def on_trial_result(self, **info: Any) -> None:
            self.heard.append((info["iteration"], info["trial"].number, info["result"]["v"]))

        def on_step_begin(self, *, iteration: int, **info: Any) -> None:
            self.heard.append(iteration)

    head, hears = Head(), Hears()
    advisors = advised(head, callbacks=[hears])
    head.say(created(2), entry(3, "start", rank=0), row(4, 1, v=5), row(5, 2, v=6))
    advisors.poll(0)
    assert hears.heard == [1, 2, 3, (3, 0, 5), 4, (4, 0, 6)]


def test_a_quick_trial_starts_before_its_rows() -> None:
    class Hears(tune.Callback):
        def __init__(self) -> None:
            self.heard: list[Any] = []

        def on_trial_start(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
            self.heard.append(("start", trial.attempt, trial.status))

        def on_trial_restore(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
            self.heard.append("restore")

        def on_trial_result(
            self, iteration: int, trials: Any, trial: Any, result: Any, **info: Any
        ) -> None:
            self.heard.append((result["v"], trial.status))

    head, hears = Head(), Hears()
    advisors = advised(head, callbacks=[hears])
    again = {**row(6, 2, v=4), "attempt": 2, "restored": True}
    head.say(created(2), {**row(3, 1, v=2), "restored": False}, entry(4, "start", rank=0),
             entry(5, "attempt_end", outcome="FAILED", reason="", goes_on=True), again,
             entry(7, "start", rank=0) | {"attempt": 2, "restored": True})  # fmt: skip
    advisors.poll(0)
    assert hears.heard == [("start", 1, "RUNNING"), (2, "RUNNING"), ("start", 2, "RUNNING"),
                           "restore", (4, "RUNNING")]  # fmt: skip


def test_a_checkpoint_that_a_callback_asks_for_in_vain_is_said_once() -> None:
    class Asks(tune.Callback):
        def on_trial_result(
            self, iteration: int, trials: Any, trial: Any, result: Any, **info: Any
        ) -> None:
            result[SHOULD_CHECKPOINT] = True

    head = Head()
    advisors = advised(head, callbacks=[Asks()])
    head.say(created(2), row(3, 1), row(4, 2))
    with pytest.warns(UserWarning, match="Asks set should_checkpoint, which") as said:
        advisors.poll(0)
    assert len(said) == 1


def test_the_end_of_a_search_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(None, {"experiment_id": 1, "results_dir": "/r"}, embedded=True)
    ended = {"state": "COMPLETED", "trials_by_state": {"completed": 2}, "trials_total": 2}
    progress.update(ended)
    progress.update(ended)  # While callbacks still hear of it.
    said = capsys.readouterr()
    assert (said.out + said.err).count("2/2 trials; completed after") == 1


class Seeded(Searcher):
    def __init__(self) -> None:
        super().__init__("v", "max")
        self.heard: list[Any] = []

    def suggest(self, trial_id: str) -> Any:
        self.heard.append(trial_id)
        return {"x": len(self.heard) - 1} if len(self.heard) <= 3 else Searcher.FINISHED

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        self.heard.append((trial_id, result["training_iteration"]))

    def on_trial_complete(
        self, trial_id: str, result: Any = None, error: bool = False
    ) -> None:
        self.heard.append((trial_id, "end"))


def explore_entry(seq: int, number: int = 0, **params: Any) -> dict[str, Any]:
    return entry(seq, "explore", number, params=params, **{"from": 1})


def test_a_function_explores_once_for_each_question() -> None:
    calls: list[dict[str, Any]] = []

    def mine(config: dict[str, Any]) -> dict[str, Any]:
        calls.append(dict(config))
        config["lr"] *= 2
        config["made"] = (1, 2)
        return config

    head = Head()
    advisors = advised(head, explore=mine)
    head.say(created(2), explore_entry(3, lr=0.25, note="x"))
    advisors.poll(0)
    assert calls == [{"lr": 0.25, "note": "x"}]
    (made,) = head.answers[0]["explored"]
    assert made["number"] == 0
    assert restore_values(made["params"], {}) == {"lr": 0.5, "note": "x", "made": (1, 2)}
    head.say(created(4, 1))
    advisors.poll(0)
    assert head.answers[1]["explored"] == []
    # What an earlier driver has answered is not asked again.
    again = Head(answered_seq=3)
    advisors = advised(again, explore=mine)
    answered = {"seq": 4, "kind": "answered", "through": 3}
    again.say(created(2), explore_entry(3, lr=0.25), answered, explore_entry(5, lr=0.5))
    advisors.poll(0)
    assert [call["lr"] for call in calls] == [0.25, 0.5]
    assert [each["params"]["lr"] for each in again.answers[0]["explored"]] == [1.0]


def test_a_function_that_explores_nothing_is_named() -> None:
    def forgetful(config: dict[str, Any]) -> Any:
        config["gone"] = config.pop("lr")

    def failing(config: dict[str, Any]) -> Any:
        return {"lr": config["missing"]}

    for explore, words in (
        (forgetful, "custom_explore_fn forgetful: TypeError: it must return a configuration"),
        (failing, "custom_explore_fn failing: KeyError: 'missing'"),
        (lambda config: {"lr": tune.uniform(0, 1)}, "custom_explore_fn <lambda>: ValueError: lr: "),
    ):
        head = Head()
        advisors = advised(head, explore=explore)
        head.say(created(2), explore_entry(3, lr=0.25))
        with pytest.warns(UserWarning, match="clones have the configurations of the head"):
            advisors.poll(0)
        (made,) = head.answers[0]["explored"]
        assert made["failure"].startswith(words) and "params" not in made


def test_a_driver_that_comes_back_is_shown_what_was_answered() -> None:
    head, searcher, scheduler, calls = Head(answered_seq=7), Seeded(), FIFOScheduler(), Calls()
    advisors = advised(head, searcher=searcher, scheduler=scheduler, callbacks=[calls])
    head.say(entry(2, "answered", through=1), created(3, 0), entry(4, "start", rank=0), row(5, 1),
             entry(8, "answered", through=7), row(9, 2))  # fmt: skip
    advisors.poll(0)
    assert searcher.heard == ["1/0", ("1/0", 1), ("1/0", 2)]
    assert calls.calls == ["setup", "on_trial_result"]  # The first row was told before.
    assert [(a["from"], a["through"]) for a in head.answers] == [(7, 9)]


def test_suggestions_wait_finish_and_keep_the_constants() -> None:
    class Slow(Seeded):
        def suggest(self, trial_id: str) -> Any:
            return None if not self.heard else {"net/width": 3, "t": (1, 2)}

    head, searcher = Head(), Slow()
    advisors = advised(head, searcher=searcher)
    head.say(asked=(0,))
    advisors.poll(0)
    assert head.answers == [] and advisors._considered == [0]
    searcher.heard.append("now")
    head.say()
    head.replies[-1]["asked"] = [{"number": 0, "params": {"net": {"width": 1, "depth": 2}}}]
    advisors.poll(0)
    assert head.answers[0]["suggestions"] == [
        {"number": 0, "params": {"net": {"width": 3, "depth": 2}, "t": "py:(1, 2)"}}
    ]


def test_a_paused_trial_goes_on_when_it_is_chosen() -> None:
    head, scheduler = Head(), Noting(pauses=True)
    advisors = advised(head, scheduler=scheduler)
    head.say(created(2), entry(3, "start", rank=0), row(4, 1))
    head.say(entry(5, "attempt_end", outcome="ENDED", reason="", goes_on=True))
    head.say({**entry(6, "start", rank=0), "attempt": 2})
    for _ in range(3):
        advisors.poll(0)
    assert head.answers[0]["pauses"] == [0] and head.answers[0]["resumes"] == [0]
    assert all(answer["resumes"] == [] for answer in head.answers[1:])
    assert advisors._controller.trials[0].status == "RUNNING"


def test_a_scheduler_that_chooses_lets_one_trial_wait_at_a_time() -> None:
    class LastFirst(Noting):
        def choose_trial_to_run(self, tune_controller: Any) -> Any:
            waiting = [t for t in tune_controller.get_trials() if t.status == "PENDING"]
            return waiting[-1] if waiting else None

    advice = Advice(scheduler=LastFirst())
    assert advice.to_spec()["chooses"] and "chooses" not in Advice(scheduler=Noting()).to_spec()
    head = Head()
    advisors = advised(head, scheduler=advice.scheduler)
    head.say(created(2, 0), created(3, 1))
    head.say(entry(4, "start", 1, rank=0))
    head.say()
    for _ in range(3):
        advisors.poll(0)
    assert [answer["resumes"] for answer in head.answers] == [[1], [0]]


def test_a_wrong_verdict_is_an_error() -> None:
    class Wrong(TrialScheduler):
        def on_trial_result(self, tune_controller: Any, trial: Any, result: Any) -> str:
            return "GO"

    head = Head()
    advisors = advised(head, scheduler=Wrong())
    head.say(created(2), row(3, 1))
    with pytest.raises(ValueError, match="returned 'GO'"):
        advisors.poll(0)


def test_batches_and_repeats_tell_the_searcher_together() -> None:
    inner = Seeded()
    batch = ConcurrencyLimiter(inner, 2, batch=True)
    assert [batch.suggest(f"1/{n}") for n in range(3)] == [{"x": 0}, {"x": 1}, None]
    batch.on_trial_complete("1/0", {"v": 1})
    assert batch.suggest("1/2") is None and inner.heard == ["1/0", "1/1"]
    batch.on_trial_complete("1/1", {"v": 2})
    assert inner.heard[2:] == [("1/0", "end"), ("1/1", "end")]
    told: list[Any] = []
    inner = Seeded()
    inner.on_trial_complete = lambda *args, **kw: told.append((args, kw))  # type: ignore
    repeat = Repeater(inner, repeat=2)
    configs = [repeat.suggest(f"1/{n}") for n in range(3)]
    assert configs[0] == {"x": 0, "__trial_index__": 0} and configs[1]["__trial_index__"] == 1
    assert configs[2] == {"x": 1, "__trial_index__": 0}
    repeat.on_trial_complete("1/0", {"v": 1.0})
    repeat.on_trial_complete("1/1", None, error=True)
    assert told == [(("1/0",), {"result": {"v": 1.0}, "error": False})]


def test_sample_from_values_are_resolved_in_order() -> None:
    space = {
        "b": tune.sample_from(lambda spec: spec.config.a + 1),
        "a": tune.sample_from(lambda spec: spec["x"] * 10),
        "x": tune.uniform(0, 1),
        "deep": {"c": tune.sample_from(lambda spec: spec.config.get("b") + 1)},
        "fixed": tune.sample_from(lambda: 4),
    }
    encoded, _ = encode_space(space)
    assert encoded["b"] is None and encoded["x"] == {"uniform": [0, 1]}
    config = {"b": None, "a": None, "x": 2, "deep": {"c": None}, "fixed": None}
    assert resolve(config, computed(space), random.Random(1)) == {
        "b": 21, "a": 20, "x": 2, "deep": {"c": 22}, "fixed": 4,
    }  # fmt: skip
    circle = {"p": tune.sample_from(lambda s: s.config.q), "q": tune.sample_from(lambda s: s["p"])}
    with pytest.raises(ValueError, match="p, q: these values of the search space need each other"):
        resolve(dict.fromkeys(circle), computed(circle), random.Random(1))


def test_domains_inside_the_values_of_a_choice_are_drawn_in_the_driver() -> None:
    deep = {"kind": "deep", "lr": tune.uniform(0, 1), "more": [tune.choice(["a", "b"])],
            "twice": tune.sample_from(lambda spec: spec.config.net.lr * 2)}  # fmt: skip
    space = {"net": tune.choice([deep, "shallow"]), "x": tune.randint(0, 9),
             "grid": tune.grid_search([1, tune.uniform(5, 6)])}  # fmt: skip
    encoded, table = encode_space(space)
    texts = encoded["net"]["choice"]
    assert texts[1] == "shallow" and encoded["grid"]["grid"][0] == 1
    wanted = computed(space)
    assert {path for path, _ in wanted} == {("net",), ("grid",)}
    assert not computed(space, head_draws=False)
    config = restore_values({"net": texts[0], "x": 3, "grid": 1}, table)
    drawn = resolve(config, wanted, random.Random("7/0"))
    assert 0 <= drawn["net"]["lr"] < 1 and drawn["net"]["more"][0] in "ab"
    assert drawn["net"]["twice"] == 2 * drawn["net"]["lr"] and drawn["grid"] == 1
    assert isinstance(deep["lr"], Domain), "the space stays as it was"
    again = restore_values({"net": texts[0], "x": 3, "grid": 1}, table)
    assert resolve(again, wanted, random.Random("7/0")) == drawn
    assert restore_values(json_config(drawn), table) == drawn
    shallow = {"net": "shallow", "x": 3, "grid": encoded["grid"]["grid"][1]}
    found = resolve(restore_values(shallow, table), wanted, random.Random(1))
    assert found["net"] == "shallow" and 5 <= found["grid"] <= 6


def test_the_head_draws_what_is_inside_the_values_of_a_choice() -> None:
    space = {
        "net": tune.choice([{"kind": "mlp", "lr": tune.uniform(0, 1), "act": tune.choice([abs])},
                            {"kind": "none", "if": {"x": 1}}, tune.randint(1, 3), "none"]),
        "adam": {"if": {"net": "none"}, "beta": tune.uniform(0, 1)},
        "raw": {"if": {"a": 1}, "b": 2},
    }  # fmt: skip
    encoded, table = encode_space(space)
    assert encoded == {
        "net": {"choice": [
            {"kind": "mlp", "lr": {"uniform": [0, 1]},
             "act": {"choice": ["<built-in function abs>"]}},
            {"constant": {"kind": "none", "if": {"x": 1}}}, {"randint": [1, 3]}, "none"]},
        "adam": {"if": {"net": "none"}, "beta": {"uniform": [0, 1]}},
        "raw": {"constant": {"if": {"a": 1}, "b": 2}},
    }  # fmt: skip
    drawn = {"net": {"kind": "mlp", "lr": 0.5, "act": "<built-in function abs>"}}
    assert restore_values(drawn, table)["net"]["act"] is abs
    assert computed(space) == []


def test_who_draws_what_is_inside_the_values_of_a_choice() -> None:
    inner = {"lr": tune.uniform(0, 1), "twice": tune.sample_from(lambda c: 2 * c["net"]["lr"])}
    space = {"net": tune.choice([inner]), "k": tune.sample_from(lambda: 1)}

    def paths(search: Any) -> list[Any]:
        request = Request(lambda config: 1, space, tune.TuneConfig(search_alg=search))
        return [path for path, _ in advice_of(request, build_spec(request)[0]).computed]

    basic = BasicVariantGenerator()
    for head_draws in (None, basic, ConcurrencyLimiter(basic, 2)):
        assert paths(head_draws) == [("k",), ("net",)]
    for searcher_draws in (Seeded(), ConcurrencyLimiter(Seeded(), 2)):
        assert paths(searcher_draws) == [("k",)]


def test_a_function_that_gives_functions_without_end_is_an_error() -> None:
    def again() -> Any:
        return tune.sample_from(again)

    with pytest.raises(ValueError, match="a: these values"):
        resolve({"a": None}, [(("a",), tune.sample_from(again))], random.Random(1))


def test_stoppers_follow_their_rules() -> None:
    plateau = stopper.ExperimentPlateauStopper("v", std=0.1, top=3, mode="max", patience=2)
    said = [plateau("1/0", {"v": v}) for v in (1.0, 5.0, 5.0, 5.0, 5.0)]
    assert said == [False, False, False, False, True] and plateau.stop_all()
    trial = stopper.TrialPlateauStopper("v", std=0.0, num_results=2, grace_period=3,
                                        metric_threshold=1.0, mode="max")  # fmt: skip
    assert [trial("1/0", {"v": v}) for v in (0.5, 0.5, 0.5, 2.0, 2.0)] == [
        False, False, False, False, True,
    ]  # fmt: skip
    timeout = stopper.TimeoutStopper(3600)
    assert not timeout("1/0", {}) and not timeout.stop_all()
    assert stopper.parts(stopper.CombinedStopper(timeout, stopper.NoopStopper())) == [timeout]
    assert stopper.FunctionStopper(lambda trial_id, result: result["v"] > 1)("1/0", {"v": 2})
