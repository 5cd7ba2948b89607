"""rt.elastic.torch: how ranks save together before they end, and how their processes end."""

from __future__ import annotations

import atexit
import errno
import gc
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, Optional

import pytest

torch = pytest.importorskip("torch")

from elastic_ranks import run_ranks  # noqa: E402
from rt import _api  # noqa: E402
from rt.elastic import checkpoint  # noqa: E402
from rt.elastic.torch import _job, _trial  # noqa: E402
from test_elastic_torch import Run, trained  # noqa: E402


class Member:
    """A rank's session, as far as a save needs it. `asked` and `moving`: by the worker."""

    stopping = pausing = False

    def __init__(self, rank: int, asked: bool, moving: bool) -> None:
        self.rank, self.asked, self.moving = rank, asked, moving
        self.reports, self.left = 0, False

    def checkpoint_requested(self) -> Optional[float]:
        return 30.0 if self.asked else None

    def checkpoint_served(self) -> None:
        self.asked = False

    def leave(self, saved: bool) -> None:
        self.left = saved


def saved(
    tmp_path: Path, asked: list[bool], late: bool = False, moving: bool = True, full: bool = False
) -> Any:
    """How long each of two ranks took to save after a request to some, and whether it ended.
    `late`: a rank is asked once it has reported."""

    def run(rank: int) -> Any:
        own = Member(rank, asked[rank], asked[rank] and moving)
        disk = Disk(0, 99 if full else 0)

        def report(_row: Any, _checkpoint: Any = None) -> None:
            own.reports += 1
            own.moving = own.moving or late

        _trial.session = lambda: own  # type: ignore[assignment,return-value]
        _api.report_at_barrier = report  # type: ignore[assignment]
        began = time.monotonic()
        _trial.save({}, True, True)
        assert own.reports == 1 and disk.count == (rank == 0)
        return [time.monotonic() - began, own.left]

    return run_ranks(2, run, tmp_path)


def test_ranks_go_on_at_once_after_a_request_that_was_withdrawn(tmp_path: Path) -> None:
    for seconds, left in saved(tmp_path, [False, False]):
        assert seconds < _trial.REQUEST_WAIT_S and not left


def test_a_rank_that_is_asked_only_after_its_report_ends_with_the_others(tmp_path: Path) -> None:
    """So are ranks of a fixed number that have not reported before."""
    for seconds, left in saved(tmp_path, [True, False], late=True):
        assert seconds < _trial.REQUEST_WAIT_S + 5 and left


def test_a_request_to_one_rank_alone_delays_the_others_by_a_moment(tmp_path: Path) -> None:
    """As after SIGUSR2 to one process: nobody ends, and nobody waits to be asked."""
    for seconds, left in saved(tmp_path, [False, True], moving=False):
        assert seconds < _trial.REQUEST_WAIT_S + 5 and not left


@pytest.mark.parametrize("way", ["regular", "failed", "stopped", "amid a sum"])
def test_the_process_group_is_left_where_nobody_has_to_be_waited_for(
    tmp_path: Path, way: str
) -> None:
    def run(_rank: int) -> Any:
        Run(epochs=1).train()
        dist, job = torch.distributed, _job.current()
        if way == "failed":
            sys.last_type = ValueError
        elif way == "stopped":
            stopped: Any = SimpleNamespace(terminated=True)
            _trial.session = lambda: stopped  # type: ignore[assignment]
        elif way == "amid a sum":
            job.exchange.start([0.0], None)
        before = dist.is_initialized()
        atexit._run_exitfuncs()
        return [before, dist.is_initialized()]

    assert run_ranks(2, run, tmp_path) == [[True, way != "regular"]] * 2


def test_an_exit_does_not_look_through_the_objects_of_pytorch() -> None:
    assert gc.get_freeze_count() > 100_000


class Disk(checkpoint.State):
    """Is full after so many saves, and no more after `until`."""

    def __init__(self, saves: int, until: int) -> None:
        super().__init__("disk")
        self.saves, self.until, self.count = saves, until, 0

    def save(self, fileobj: IO[bytes]) -> None:
        self.count += 1
        fileobj.write(b"x")
        if self.saves < self.count <= self.until:
            try:
                raise OSError(errno.ENOSPC, "No space left on device")
            except OSError:
                raise RuntimeError("unexpected pos")  # noqa: B904 - As PyTorch does.


def test_a_run_goes_on_while_the_disk_is_full(tmp_path: Path) -> None:
    def run(_rank: int) -> Any:
        training, disk = Run(epochs=3, every_step=True), Disk(4, 20)
        _job.current().checkpoint_interval_s = 0.0
        return [training.train().result["seen"], disk.count, len(list(place.glob("*")))]

    place = tmp_path / "saved"
    found = run_ranks(2, run, tmp_path / "full", ADAPTDL_CHECKPOINT_PATH=str(place))
    assert found[0][1] > 20 and found[1][1] == 0  # Rank 0 writes.
    assert [each[0] for each in found] == [each["seen"] for each in trained(2, tmp_path, epochs=3)]
    assert {each.name[:11] for each in place.iterdir()} == {"checkpoint-"}


def test_a_run_does_not_end_without_its_last_checkpoint(tmp_path: Path) -> None:
    def run(_rank: int) -> Any:
        training, _disk = Run(epochs=1), Disk(0, 99)
        try:
            training.train()
        except OSError as error:
            return str(error)
        return "nothing"

    env = {"ADAPTDL_CHECKPOINT_PATH": str(tmp_path / "saved")}
    assert run_ranks(1, run, tmp_path, **env) == ["[Errno 28] No space left on device"]
    assert list((tmp_path / "saved").iterdir()) == []


def test_nobody_ends_when_the_requested_checkpoint_does_not_fit(tmp_path: Path) -> None:
    for seconds, left in saved(tmp_path, [True, True], full=True):
        assert seconds < _trial.REQUEST_WAIT_S and not left
