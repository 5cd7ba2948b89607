"""Smaller modules of Ray Tune: utils, result, states of trials, functions as classes."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from fake_world import World
from rt import tune
from rt.tune import result, utils
from rt.tune._experiment import Request, build_spec
from rt.tune._live import LiveTrial
from rt.tune.registry import is_function_trainable, validate_trainable
from rt.tune.search import (
    UNDEFINED_METRIC_MODE,
    UNDEFINED_SEARCH_SPACE,
    UNRESOLVED_SEARCH_SPACE,
)
from rt.tune.trainable import FunctionTrainable, wrap_function


def test_dicts_are_flattened_and_made_again() -> None:
    tree = {"a": {"b": 1, "c": {}}, "d": [{"e": 2}, 3]}
    flat = {"a/b": 1, "a/c": {}, "d": [{"e": 2}, 3]}
    assert utils.flatten_dict(tree) == flat and utils.unflatten_dict(flat) == tree
    lists = utils.flatten_dict(tree, flatten_list=True)
    assert lists == {"a/b": 1, "a/c": {}, "d/0/e": 2, "d/1": 3}
    assert utils.unflatten_list_dict(lists) == tree
    assert utils.flatten_dict({}) == {} and utils.unflatten_dict({"a.b": 1}, ".") == {"a": {"b": 1}}
    with pytest.raises(ValueError, match="contains the delimiter"):
        utils.flatten_dict({"a": {"b/c": 1}}, prevent_delimiter=True)
    with pytest.raises(TypeError, match="'a' has a value of its own"):
        utils.unflatten_dict({"a": 1, "a/b": 2})
    assert utils.unflattened_lookup("d/0/e", tree) == 2
    with pytest.raises(KeyError, match="'x' was looked for"):
        utils.unflattened_lookup("a/x", tree)


def test_dicts_are_merged() -> None:
    first = {"a": {"b": 1}, "c": 2}
    assert utils.merge_dicts(first, {"a": {"d": 3}}) == {"a": {"b": 1, "d": 3}, "c": 2}
    assert first == {"a": {"b": 1}, "c": 2}
    with pytest.raises(ValueError, match="unknown key 'e'; known: a, c"):
        utils.deep_update(first, {"e": 1})
    utils.deep_update(first, {"a": {"d": 3}}, False, ["a"])
    assert first["a"] == {"b": 1, "d": 3}
    utils.deep_update(first, {"a": {"only": 1}}, True, override_all_key_list=["a"])
    assert first["a"] == {"only": 1}
    typed: Any = {"a": {"type": "x", "b": 1}}
    utils.deep_update(typed, {"a": {"type": "y"}}, True, override_all_if_type_changes=["a"])
    assert typed["a"] == {"type": "y"}


def test_it_waits_until_the_gpu_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used = tmp_path / "used"
    used.write_text("900\n900\n0\n")
    smi = tmp_path / "nvidia-smi"
    smi.write_text(
        f"#!/bin/sh\nread -r now < {used}\n[ \"$(wc -l < {used})\" -le 1 ] || sed -i 1d {used}\n"
        'echo "0, GPU-a, $now, 1000"\necho "1, GPU-b, 500, 1000"\n'
    )
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert utils.wait_for_gpu(delay_s=0)
    assert utils.wait_for_gpu("GPU-b", target_util=0.6)
    with pytest.raises(RuntimeError, match="GPU 1 still has 50% of its memory in use"):
        utils.wait_for_gpu(1, retry=2, delay_s=0)
    with pytest.raises(ValueError, match="no GPU 7; known: 0, GPU-a, 1, GPU-b"):
        utils.wait_for_gpu(7)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(RuntimeError, match="nvidia-smi does not answer"):
        utils.wait_for_gpu()


class Counts(tune.Trainable):
    """Counts in its checkpoint; `forgets`: not the step."""

    def setup(self, config: dict[str, Any]) -> None:
        self.at = 0

    def step(self) -> dict[str, Any]:
        self.at += 1
        at = {"training_iteration": self.at} if self.config.get("forgets") else {}
        return {"at": self.at, **at}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {"at": 0 if self.config.get("forgets") else self.at}

    def load_checkpoint(self, checkpoint: Any) -> None:
        self.at = checkpoint["at"]


def test_a_class_is_checked_for_its_checkpoints() -> None:
    assert utils.validate_save_restore(Counts)
    with pytest.raises(AssertionError, match="Counts is at step 1, not 4"):
        utils.validate_save_restore(Counts, {"forgets": True})
    with pytest.raises(ValueError, match="takes a class trainable"):
        utils.validate_save_restore(print)


def test_what_cannot_be_pickled_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    lock = threading.Lock()

    def trains(config: dict[str, Any]) -> None:
        with lock:
            pass

    assert utils.diagnose_serialization(trains) == {"lock"}
    assert "cannot be pickled" in capsys.readouterr().out
    assert utils.diagnose_serialization(Counts) is True


def test_points_are_checked_against_parameters_and_rewards() -> None:
    utils.util.validate_warmstart(["a"], [{"a": 1}], [0.5])  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="1 points have 2 rewards"):
        utils.validate_warmstart(["a"], [{"a": 1}], [0.5, 0.6])
    with pytest.raises(ValueError, match="does not fit the parameters"):
        utils.validate_warmstart(["a", "b"], [{"a": 1}], None)
    with pytest.raises(TypeError, match="must be a list"):
        utils.validate_warmstart(["a"], {"a": 1}, None)  # type: ignore[arg-type]


def test_a_slow_block_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with utils.warn_if_slow("reading", threshold=-1.0) as slow:
        pass
    assert slow.too_slow and capsys.readouterr().out.startswith("reading took")
    with utils.warn_if_slow("reading", threshold=60):
        pass
    assert capsys.readouterr().out == ""


def test_the_texts_of_errors_have_rays_fields() -> None:
    assert "Mine" in UNDEFINED_METRIC_MODE.format(cls="Mine", metric=None, mode=None)
    assert "Mine" in UNDEFINED_SEARCH_SPACE.format(cls="Mine", space=None)
    assert "space" in UNRESOLVED_SEARCH_SPACE.format(par="space", cls="Mine")


def test_constants_have_rays_values() -> None:
    assert result.AUTO_RESULT_KEYS[:2] == ("training_iteration", "time_total_s")
    assert result.EXPR_PROGRESS_FILE == "progress.csv" and result.DEFAULT_METRIC == "_metric"
    assert (tune.Trial.PENDING, tune.Trial.TERMINATED) == ("PENDING", "TERMINATED")
    trial = LiveTrial("1/0", 0, {}, "t")
    assert trial.status == tune.Trial.PENDING == trial.PENDING


def test_a_function_in_a_class_runs_as_the_function(world: World) -> None:
    def trains(config: dict[str, Any]) -> None:
        tune.report(acc=1)

    wrapped = wrap_function(trains, name="Mine")
    assert issubclass(wrapped, FunctionTrainable) and wrapped.__name__ == "Mine"
    assert is_function_trainable(wrapped) and not is_function_trainable(Counts)
    tune.run(wrapped, metric="acc", mode="max")
    assert world.spec()["trainable"] == "trains"
    with pytest.raises(RuntimeError, match="to try the function here, call it"):
        wrapped({})
    with pytest.raises(ValueError, match=r"pass the others by tune\.with_parameters"):
        wrap_function(lambda config, data: None)
    with pytest.raises(tune.TuneError, match="no trainable is registered as 'nothing'"):
        validate_trainable("nothing")


def test_nested_stop_rules_are_about_nested_metrics() -> None:
    stop = {"eval": {"acc": 0.9, "loss": {"<=": 0.1}}, "training_iteration": 5}
    request = Request(trainable=print, run=tune.RunConfig(stop=stop))
    assert build_spec(request)[0]["stop"] == {
        "eval/acc": 0.9,
        "eval/loss": {"<=": 0.1},
        "training_iteration": 5,
    }
