"""rt.elastic without PyTorch: throughput, goodput, values between ranks, checkpoints."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from rt.elastic import checkpoint, collective, env
from rt.elastic._fit import Point, _loss, fit_perf_params, minimize
from rt.elastic.goodput import (
    GoodputFunction,
    GradParams,
    PerfParams,
    compute_time,
    gain_of,
    last_time,
    step_time,
)

TRUE = PerfParams(0.02, 0.001, 0.03, 0.002, 0.01, 0.0005, 2.5)
SEEN = [(1, 1), (1, 2), (1, 4), (2, 4), (2, 8)]
UNSEEN = [(1, 3, 12), (2, 6, 48), (2, 12, 100), (1, 2, 24), (2, 6, 16)]


def points(noise: float, seed: int) -> list[Point]:
    rng = random.Random(seed)

    def blurred(seconds: float) -> float:
        return seconds * math.exp(rng.gauss(0, noise))

    return [
        Point(n, r, b, blurred(compute_time(TRUE, b)), blurred(last_time(TRUE, n, r, b)))
        for n, r in SEEN
        for b in (8, 16, 32, 64, 128)
    ]


@pytest.fixture(autouse=True)
def fresh() -> Any:
    yield
    checkpoint.forget()
    collective.teardown()


def test_importing_the_package_imports_no_torch() -> None:
    text = "import sys, rt.elastic as a; a.env, a.collective; sys.exit('torch' in sys.modules)"
    path = str(Path(__file__).parents[2] / "python")
    env = {"PYTHONPATH": path}
    assert subprocess.run([sys.executable, "-c", text], check=False, env=env).returncode == 0


def test_times_have_their_closed_forms() -> None:
    alone = PerfParams(0.1, 0.01, 9, 9, 9, 9, 3.0)
    assert step_time(alone, 1, 1, 10, 2) == pytest.approx(3 * 0.2, rel=1e-6)
    no_overlap = PerfParams(0.1, 0.01, 0.3, 0.05, 0.2, 0.04, 1.0)
    assert last_time(no_overlap, 1, 4, 10) == pytest.approx(0.2 + 0.2 + 0.04 * 2)
    assert last_time(no_overlap, 2, 4, 10) == pytest.approx(0.2 + 0.3 + 0.05 * 2)
    overlap = no_overlap._replace(gamma=2.0)
    assert last_time(overlap, 1, 2, 10) == pytest.approx(math.sqrt(0.2**2 + 0.2**2))


def test_gain_and_efficiency_have_their_closed_forms() -> None:
    grad = GradParams(sqr=2.0, var=6.0)
    assert gain_of(grad, 1) == 1
    assert gain_of(grad, 4) == pytest.approx(8 / (6 / 4 + 2))
    assert gain_of(GradParams(1, 0), 8) == 1  # Without noise a larger batch brings nothing.
    assert gain_of(GradParams(0, 1), 8) == 8  # Without a signal it brings all.
    assert gain_of(GradParams(0, 0), 8) == 1
    goodput = GoodputFunction(TRUE, grad, 32)
    noise = 32 * 6 / 2
    assert goodput.efficiency(128) == pytest.approx((noise + 32) / (noise + 128))
    assert goodput(1, 2, 32, 1) == pytest.approx(
        goodput.throughput(1, 2, 32, 1) * goodput.efficiency(128)
    )


def test_the_gradient_of_the_fits_loss_is_its_slope() -> None:
    at = [math.log(each) for each in TRUE[:6]] + [TRUE.gamma]
    seen = points(0.3, 1)
    _, slope = _loss(seen, at)
    for index in range(7):
        ends = []
        for side in (1e-6, -1e-6):
            moved = list(at)
            moved[index] += side
            ends.append(_loss(seen, moved)[0])
        assert slope[index] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-4, abs=1e-7)


def test_minimize_stays_in_its_box_and_finds_closed_forms() -> None:
    def bowl(x: list[float]) -> tuple[float, list[float]]:
        return (x[0] - 3) ** 2 + 10 * (x[1] + x[0]) ** 2, [
            2 * (x[0] - 3) + 20 * (x[1] + x[0]),
            20 * (x[1] + x[0]),
        ]

    assert minimize(bowl, [0, 0], [-9, -9], [9, 9]) == pytest.approx([3, -3], abs=1e-4)
    # With x1 >= -1: (x0 - 3)^2 + 10 (x0 - 1)^2 is least at 13/11.
    assert minimize(bowl, [0, 0], [-9, -1], [9, 9]) == pytest.approx([13 / 11, -1], abs=1e-4)
    assert minimize(bowl, [0, 0.5], [-9, -9], [9, 9], [True, False])[1] == 0.5


def test_the_fit_of_exact_points_predicts_unseen_configurations() -> None:
    fitted = fit_perf_params(points(0, 0))
    for nodes, ranks, local in UNSEEN:
        for steps in (0, 3):
            expected = step_time(TRUE, nodes, ranks, local, steps)
            assert step_time(fitted, nodes, ranks, local, steps) == pytest.approx(
                expected, rel=0.03
            )


def test_the_fit_of_noisy_points_is_within_10_percent_in_the_mean() -> None:
    errors = []
    for seed in range(10):
        fitted = fit_perf_params(points(0.1, seed))
        errors += [abs(step_time(fitted, *each) / step_time(TRUE, *each) - 1) for each in UNSEEN]
    assert sum(errors) / len(errors) < 0.1


def test_what_was_not_measured_is_optimistic_but_not_free() -> None:
    one = fit_perf_params([Point(1, 1, 32, 0.1, 0.1)])
    assert one.alpha_c == pytest.approx(0.05)
    assert compute_time(one, 32) == pytest.approx(0.1, rel=1e-3)
    inside = fit_perf_params(
        [Point(1, r, b, b / 100, b / 100 + 0.2) for r in (1, 2) for b in (8, 16)]
    )
    assert inside.alpha_n >= inside.alpha_r * 1.1
    with pytest.raises(ValueError, match="at least one"):
        fit_perf_params([])


def test_the_best_batch_is_that_of_an_exhaustive_search() -> None:
    goodput = GoodputFunction(TRUE, GradParams(0.001, 0.1), 64)
    for ranks in (1, 2, 4):
        best = goodput.optimize(1, ranks, 1024, (16, 128))
        assert 16 <= best.local_batch <= 128 and best.accumulation == 0
        every = max(
            goodput(1, ranks, local) for local in range(16, 129) if 64 <= local * ranks <= 1024
        )
        assert best.goodput == pytest.approx(every, rel=0.02)
    # Accumulation saves synchronisations: it pays between nodes, and not for a rank alone.
    slow = GoodputFunction(TRUE._replace(alpha_n=0.3), goodput.grad, 64)
    more = slow.optimize(2, 4, 1024, (16, 64), accumulation=True)
    assert more.accumulation >= 1 and more.batch > 256 and more.local_batch <= 64
    assert goodput.optimize(1, 1, 1024, (16, 64), accumulation=True).accumulation == 0
    assert goodput.optimize(1, 1, 64).batch == 64
    noiseless = GoodputFunction(TRUE, GradParams(1, 0), 64)
    assert noiseless.optimize(1, 1, 1024).batch == 64


class Store:
    """The store of a process group, in memory."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.changed = threading.Condition()

    def set(self, key: str, value: Any) -> None:
        with self.changed:
            self.values[key] = bytes(value)
            self.changed.notify_all()

    def get(self, key: str) -> bytes:
        with self.changed:
            assert self.changed.wait_for(lambda: key in self.values, 20)
            return self.values[key]

    def delete_key(self, key: str) -> bool:
        with self.changed:
            return self.values.pop(key, None) is not None


def test_values_keep_their_types_between_ranks() -> None:
    value = {"a": [1, 2.5, None, True], 3: ("x", b"\x00\xff"), "__rt__": {}}
    assert collective.decode(collective.encode(value)) == value
    assert math.isnan(collective.decode(collective.encode(math.nan)))
    with pytest.raises(TypeError, match="a set cannot travel between ranks"):
        collective.encode({1})
    with pytest.raises(ValueError, match="unknown kind 'os'"):
        collective.decode(b'{"__rt__":"os"}')


def test_all_ranks_get_the_same_and_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    store, size = Store(), 3
    worlds = [collective._World(store, rank, size) for rank in range(size)]
    local = threading.local()
    monkeypatch.setattr(collective, "_current", lambda: worlds[local.rank])
    found: dict[int, Any] = {}
    most: dict[int, int] = {}

    def run(rank: int) -> None:
        local.rank = rank
        for step in range(200):
            assert collective.broadcast(step * (1 - rank)) == step
        most[rank] = len(store.values)
        sums = [collective.allreduce(rank * step) for step in range(4)]
        texts = collective.allreduce([str(rank)])
        found[rank] = (sums, texts, collective.broadcast({"from": rank}))

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)
    expected = ([0, 3, 6, 9], ["0", "1", "2"], {"from": 0})
    assert found == dict.fromkeys(range(size), expected)
    assert len(store.values) <= 4  # Of the two newest calls.
    assert max(most.values()) <= collective.ACKNOWLEDGED + size
    assert [len(each.unread) for each in worlds] == [2, 0, 0]


def test_a_process_alone_is_its_own_world(monkeypatch: pytest.MonkeyPatch) -> None:
    assert collective.allreduce(3) == 3
    assert collective.broadcast((1, 2)) == (1, 2)
    assert collective.allreduce_async([1]).result() == [1]
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match=r"call init_process_group\(\) first"):
        collective.allreduce(3)


class Number(checkpoint.State):
    def __init__(self, name: str, value: int = 0) -> None:
        super().__init__(name)
        self.value = value

    def save(self, fileobj: Any) -> None:
        fileobj.write(str(self.value).encode())

    def load(self, fileobj: Any) -> None:
        self.value = int(fileobj.read())


def resumed() -> int:
    checkpoint.forget()
    number = Number("n", -1)
    checkpoint.load_state(number)
    return number.value


def test_a_damaged_checkpoint_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(env.CHECKPOINT_PATH, str(tmp_path))
    assert resumed() == -1
    checkpoint.forget()
    number = Number("n")
    for value in range(4):
        number.value = value
        checkpoint.save_all_states()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["checkpoint-2", "checkpoint-3"]
    assert resumed() == 3
    (tmp_path / "checkpoint-3" / "n").write_text("7")
    assert resumed() == 2
    assert "checkpoint-3 is skipped: n does not have its checksum" in capsys.readouterr().err
    checkpoint.save_all_states()  # It replaces the damaged one, not the one to fall back to.
    assert sorted(each.name for each in tmp_path.iterdir()) == ["checkpoint-2", "checkpoint-4"]
    (tmp_path / "checkpoint-4" / "n").write_text("7")
    assert resumed() == 2
    (tmp_path / "checkpoint-2" / checkpoint.MANIFEST).unlink()
    assert resumed() == -1


def test_a_save_that_was_interrupted_is_no_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(env.CHECKPOINT_PATH, str(tmp_path))
    number = Number("n", 1)
    checkpoint.save_all_states()

    class Crash(Exception):
        pass

    def fail(_fileobj: Any) -> None:
        raise Crash

    number.save = fail  # type: ignore[method-assign]
    with pytest.raises(Crash):
        checkpoint.save_all_states()
    assert resumed() == 1


def test_states_have_names_of_their_own() -> None:
    Number("n")
    with pytest.raises(ValueError, match="a state named 'n' already"):
        Number("n")
    with pytest.raises(ValueError, match="no name of a state"):
        Number("a/b")


def test_the_environment_is_that_of_rt_torchrun_or_adaptdl(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "GROUP_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert (env.replica_rank(), env.num_replicas(), env.num_nodes(), env.num_restarts()) == (
        0, 1, 1, 0,
    )  # fmt: skip
    monkeypatch.setenv("ADAPTDL_REPLICA_RANK", "2")
    monkeypatch.setenv("ADAPTDL_NUM_REPLICAS", "3")
    assert (env.replica_rank(), env.num_replicas()) == (2, 3)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("RT_ATTEMPT", "2")
    monkeypatch.setenv("RT_GENERATION", "3")
    assert (env.replica_rank(), env.num_restarts()) == (1, 3)
    monkeypatch.setenv("RANK", "one")
    with pytest.raises(ValueError, match="must be a whole number, not 'one'"):
        env.replica_rank()


def test_a_foreign_checkpoint_of_a_trial_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RT_CHECKPOINT_DIR", str(tmp_path))
    (tmp_path / "n").write_text("5")
    assert resumed() == -1
    (tmp_path / checkpoint.MANIFEST).write_text(json.dumps({"format": 1, "sha256": {}}))
    assert resumed() == 5
