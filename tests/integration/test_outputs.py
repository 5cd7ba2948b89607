"""The files that trials and jobs write in their working directories are kept, and come home."""

import os
import pathlib
import shutil
import signal
import unittest
from typing import Any

from harness import BIN, Cluster, ClusterTest, wait_until

# Beside what is new: a file of the bundle that changes, one that is only touched and one of the
# same size; caches; links inside and outside; what is no file.
WRITES = f"""#!/bin/sh
set -e
echo "result $1" > result.txt
mkdir -p out/deep __pycache__ .git pip empty
echo deep > out/deep/file
echo cache > __pycache__/x.pyc; echo cache > .git/HEAD
printf 'Signature: 8a477f597d28d172789f06886806bc55' > pip/CACHEDIR.TAG; echo cache > pip/x
echo more >> changed.txt; touch touched.txt; echo next > same_size.txt
ln -s result.txt latest; ln -s /etc/passwd secret; ln result.txt hard; mkfifo pipe
echo "notes $1" > "$RT_TRIAL_DIR/notes.txt"
head -c 3000000 /dev/zero > large.bin; truncate -s 2G huge.bin
{BIN / 'rt'} report loss=$1
"""
KEPT = {"work/result.txt", "work/out/deep/file", "work/changed.txt", "work/same_size.txt",
        "work/latest", "work/hard", "trial/notes.txt"}
SEARCH = """
experiment: {name}
command: [sh, ./{script}, '${{v}}']
space: {{v: {{grid: [3, 5]}}}}
metric: loss
mode: min
{more}
"""


def below(folder: pathlib.Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")
            if path.is_symlink() or not path.is_dir()}


def write_bundle(folder: pathlib.Path) -> None:
    (folder / "writes.sh").write_text(WRITES)
    (folder / "writes.sh").chmod(0o755)
    for name in ("changed", "touched", "same_size", "left"):
        (folder / f"{name}.txt").write_text("text\n")


class OutputsTest(ClusterTest):
    workers = 1

    @classmethod
    def prepare(cls) -> None:
        write_bundle(cls.cluster.work)

    def search(self, name: str, script: str, more: str = "", *flags: str) -> Any:
        (self.cluster.work / f"{name}.yaml").write_text(
            SEARCH.format(name=name, script=script, more=more))
        self.cluster.rt("submit", f"{name}.yaml", *flags, check=False)
        return self.cluster.json("exp", "show", "last")

    def kept(self, verb: str, item: str) -> Any:
        """What `show` says of its outputs once they are kept."""
        def shown() -> Any:
            found = self.cluster.json(verb, "show", item)
            return found if not found["outputs_pending"] else None
        return wait_until("the outputs are kept", shown, 20)["outputs"]

    def check_kept(self, folder: pathlib.Path, number: int) -> None:
        self.assertEqual(below(folder), KEPT | {"work/large.bin"})
        self.assertEqual((folder / "work/result.txt").read_text(), f"result {number}\n")
        self.assertEqual((folder / "work/changed.txt").read_text(), "text\nmore\n")
        self.assertEqual(os.readlink(folder / "work/latest"), "result.txt")
        self.assertEqual((folder / "work/large.bin").stat().st_size, 3_000_000)
        self.assertTrue((folder / "work/empty").is_dir())

    def test_a_search_brings_home_what_its_trials_wrote(self) -> None:
        experiment = self.search("x", "writes.sh")
        for trial, number in zip(self.cluster.trials(experiment["id"]), (3, 5)):
            self.check_kept(pathlib.Path(experiment["results_dir"]) / trial["name"] / "outputs",
                            number)
            outputs = self.kept("trial", trial["id"])
            self.assertEqual((outputs["attempt"], outputs["files"]), (1, 8))
            self.assertLessEqual(KEPT, set(outputs["paths"]))
            left = {one["path"]: one["reason"] for one in outputs["left_out"]}
            self.assertEqual(set(left), {"work/huge.bin", "work/secret", "work/pipe"})
            self.assertIn("neither a file", left["work/pipe"])
            self.assertIn("beyond the 1.0 GiB", left["work/huge.bin"])
            self.assertEqual((outputs["left_out"][0]["path"], outputs["left_out"][0]["bytes"]),
                             ("work/huge.bin", 2 << 30))
            self.assertEqual(outputs["left_out_files"], 3)

    def test_a_job_and_a_failed_attempt(self) -> None:
        (self.cluster.work / "fails.sh").write_text("echo $RT_ATTEMPT > tried; exit 3\n")
        self.search("fails", "fails.sh", "max_failures: 1", "--no-download")
        trial = self.cluster.json("trial", "show", "last")
        self.assertEqual((trial["state"], trial["attempt"]), ("FAILED", 2))
        outputs = self.kept("trial", trial["id"])
        self.assertEqual((outputs["attempt"], outputs["paths"]), (2, ["work/tried"]))
        self.cluster.rt("exp", "download", "fails", "here")
        tried = self.cluster.work / "here" / trial["name"] / "outputs/work/tried"
        self.assertEqual(tried.read_text(), "2\n")
        shutil.rmtree(self.cluster.work / "here")
        done = self.cluster.rt("submit", "--name", "writer", "writes.sh", "--", "7")
        self.assertIn("3 of the files that it wrote were not kept", done.stderr)
        self.check_kept(self.cluster.home / "results/jobs/writer/outputs", 7)
        job = str(self.cluster.json("job", "list")["items"][-1]["id"])
        self.assertEqual(self.kept("job", job)["files"], 8)

    def test_what_a_checkpoint_has_is_not_kept_a_second_time(self) -> None:
        (self.cluster.work / "saves.sh").write_text(
            "set -e\n"
            "save() { mkdir -p $RT_TRIAL_DIR/epoch-$1; echo $1 > $RT_TRIAL_DIR/epoch-$1/model\n"
            f"  {BIN / 'rt'} report loss=$1 --step $1 --checkpoint $RT_TRIAL_DIR/epoch-$1; }}\n"
            "save 1; save 2\n"
            "echo changed >> $RT_TRIAL_DIR/epoch-2/model; echo log > $RT_TRIAL_DIR/epoch-2/log\n"
            "mkdir draft; echo draft > draft/model\n")
        self.search("saves", "saves.sh", "num_samples: 1\ncheckpoints: {num_to_keep: 1}",
                    "--no-download")
        trial = self.cluster.json("trial", "show", "saves/0")
        self.assertEqual([one["step"] for one in trial["checkpoints"]], [2])
        self.assertEqual(set(self.kept("trial", trial["id"])["paths"]),
                         {"work/draft/model", "trial/epoch-2/log", "trial/epoch-2/model"})

    def test_who_writes_nothing_has_no_outputs(self) -> None:
        (self.cluster.work / "quiet.sh").write_text(f"{BIN / 'rt'} report loss=$1\n")
        before = self.cluster.json("status")["journal"]["seq"]
        experiment = self.search("quiet", "quiet.sh", "", "--no-download")
        for trial in self.cluster.trials(experiment["id"]):
            self.assertIsNone(self.kept("trial", trial["id"]))
        self.assertGreater(self.cluster.json("status")["journal"]["seq"], before)
        kept = self.cluster.home / "home/clusters/it/worker-1/outputs"
        self.assertFalse(kept.exists() and list(kept.iterdir()))

    def test_a_worker_that_is_killed_keeps_what_its_trials_wrote(self) -> None:
        go = self.cluster.work.parent / "go"
        (self.cluster.work / "waits.sh").write_text(
            f"echo text > written; while [ ! -e {go} ]; do sleep 0.05; done\n")
        self.search("waits", "waits.sh", "max_concurrent: 1\nnum_samples: 1", "--detach")
        trial = self.cluster.json("trial", "list", "--exp", "waits")["items"][0]["id"]
        wait_until("it runs", lambda: self.cluster.json("trial", "show", trial)["state"] ==
                   "RUNNING")
        os.kill(self.cluster.pid("worker-1"), signal.SIGKILL)
        go.touch()
        wait_until("it is over", lambda: self.cluster.json("trial", "show", trial)["state"] ==
                   "COMPLETED")
        self.assertEqual(self.kept("trial", trial)["paths"], ["work/written"])


class TeardownTest(unittest.TestCase):
    def setUp(self) -> None:
        self.cluster = Cluster(workers=1)
        self.addCleanup(self.cluster.close)
        write_bundle(self.cluster.work)
        self.results = self.cluster.home / "results"

    def test_start_stop_and_down_bring_it_home(self) -> None:
        (self.cluster.work / "x.yaml").write_text(
            SEARCH.format(name="x", script="writes.sh", more=""))
        self.cluster.rt("submit", "cluster.yaml", "--start", "--stop", "x.yaml")
        found = sorted((self.results / "x").glob("*/outputs/work/result.txt"))
        self.assertEqual([path.read_text() for path in found], ["result 3\n", "result 5\n"])
        self.cluster.rt("submit", "cluster.yaml", "--start", "--stop", "--name", "j", "writes.sh",
                        "--", "8")
        self.assertEqual((self.results / "jobs/j/outputs/work/result.txt").read_text(),
                         "result 8\n")
        self.cluster.up()
        (self.cluster.work / "long.py").write_text(
            "import time\nopen('written', 'w').write('text')\n"
            f"open('{self.cluster.home}/ready', 'w').close()\ntime.sleep(600)\n")
        self.cluster.rt("submit", "--detach", "--name", "long", "long.py")
        wait_until("it has written", (self.cluster.home / "ready").exists)
        self.cluster.rt("down")
        self.assertEqual((self.results / "jobs/long/outputs/work/written").read_text(), "text")


# Rank 1 of the first attempt fails; rank 3 writes nothing.
GANG = """
[ $RANK = 3 ] && exit 0
echo "$RT_ATTEMPT $RANK" > result
echo "$RANK" > "$RT_TRIAL_DIR/notes"
echo "$RANK" >> shared.txt
[ $RT_ATTEMPT.$RANK = 1.1 ] && exit 3
[ $RT_ATTEMPT = 1 ] && sleep 600
exit 0
"""


class GangTest(unittest.TestCase):
    def setUp(self) -> None:
        self.cluster = Cluster(workers=2, cpus=2)
        self.addCleanup(self.cluster.close)
        (self.cluster.work / "gang.sh").write_text(GANG)
        (self.cluster.work / "shared.txt").write_text("text\n")
        self.cluster.up()

    def test_every_rank_on_every_node_brings_home_what_it_wrote(self) -> None:
        number = self.cluster.submit(
            "g", "experiment: g\ncommand: [sh, ./gang.sh]\nmax_failures: 1\n"
            "resources: {cpu: 1, ranks: 4, strategy: SPREAD}\n")
        self.assertEqual(self.cluster.wait_experiment(number)["state"], "COMPLETED")

        def kept() -> Any:
            trial = self.cluster.json("trial", "show", f"{number}/0")
            return not trial["outputs_pending"] and trial
        trial = wait_until("the outputs are kept", kept, 20)
        last = trial["attempts"][-1]
        self.assertEqual((last["number"], len({one["node_id"] for one in last["members"]})),
                         (2, 2))
        outputs = trial["outputs"]
        self.assertEqual((outputs["attempt"], outputs["files"], len(outputs["parts"])), (2, 9, 2))
        places = ["", "rank-1/", "rank-2/"]
        self.assertEqual(set(outputs["paths"]), {
            place + name for place in places
            for name in ("work/result", "work/shared.txt", "trial/notes")})
        self.cluster.rt("exp", "download", str(number), "here")
        folder = self.cluster.work / "here" / trial["name"] / "outputs"
        self.assertEqual(below(folder), set(outputs["paths"]))
        for rank, place in enumerate(places):
            self.assertEqual((folder / place / "work/result").read_text(), f"2 {rank}\n")
            self.assertEqual((folder / place / "work/shared.txt").read_text(), f"text\n{rank}\n")
            self.assertEqual((folder / place / "trial/notes").read_text(), f"{rank}\n")

    def test_a_gang_whose_worker_is_killed_keeps_what_all_ranks_wrote(self) -> None:
        go = self.cluster.home / "go"
        (self.cluster.work / "waits.sh").write_text(
            f"echo $RANK > result; while [ ! -e {go} ]; do sleep 0.05; done\n")
        number = self.cluster.submit(
            "w", "experiment: w\ncommand: [sh, ./waits.sh]\n"
            "resources: {cpu: 2, ranks: 2, strategy: SPREAD}\n")
        trial = f"{number}/0"
        wait_until("it runs", lambda: self.cluster.json("trial", "show", trial)["state"] ==
                   "RUNNING")
        self.cluster.kill("worker-1")
        go.touch()
        self.assertEqual(self.cluster.wait_experiment(number)["state"], "COMPLETED")
        shown = wait_until("the outputs are kept", lambda: (
            lambda one: not one["outputs_pending"] and one)(
                self.cluster.json("trial", "show", trial)), 20)
        attempt = shown["attempts"][-1]["number"]
        self.assertEqual(shown["outputs"]["attempt"], attempt)
        self.assertEqual(set(shown["outputs"]["paths"]), {"work/result", "rank-1/work/result"})


class SweepTest(unittest.TestCase):
    """The head sweeps its store every second, and removes what nothing has named for a second."""

    def setUp(self) -> None:
        self.cluster = Cluster(workers=1)
        self.addCleanup(self.cluster.close)
        with open(self.cluster.yaml, "a", encoding="utf-8") as file:
            file.write("checkpoint_store: {keep_garbage: 1s}\n")
        self.cluster.up()
        self.garbage = 0

    def stored(self) -> set[str]:
        manifests = self.cluster.home / "home/clusters/it/head/blobs/manifests"
        return {path.name for path in manifests.iterdir()}

    def await_sweep(self) -> None:
        """Waits until something that nothing names has been swept."""
        self.garbage += 1
        folder = self.cluster.home / f"garbage-{self.garbage}"
        folder.mkdir()
        (folder / "garbage").write_text(str(self.garbage))
        (pushed,) = self.cluster.bridge([{"op": "blob_push_dir", "path": str(folder)}])
        wait_until("garbage is swept", lambda: pushed["manifest"] not in self.stored())

    def outputs(self, attempt: int) -> str:
        """The manifest of what that attempt of the trial wrote."""
        def kept() -> Any:
            outputs = self.cluster.json("trial", "show", "1/0")["outputs"]
            return outputs and outputs["attempt"] == attempt and outputs["manifest"]
        return str(wait_until(f"the outputs of attempt {attempt} are kept", kept))

    def test_outputs_are_swept_when_those_of_a_later_attempt_are_kept(self) -> None:
        go = self.cluster.home / "go"
        (self.cluster.work / "s.sh").write_text(
            "echo $RT_ATTEMPT > result\n[ $RT_ATTEMPT = 1 ] && exit 3\n"
            f"while [ ! -e {go} ]; do sleep 0.05; done\n")
        self.cluster.submit("s", "experiment: s\ncommand: [sh, ./s.sh]\nmax_failures: 1\n")
        first = self.outputs(1)
        self.await_sweep()
        self.assertIn(first, self.stored())  # Its second attempt has written nothing yet.
        go.touch()
        second = self.outputs(2)
        wait_until("the first outputs are swept", lambda: first not in self.stored())
        self.cluster.wait_experiment(1)
        self.await_sweep()
        self.assertIn(second, self.stored())  # An experiment that is over keeps its outputs.
        self.cluster.kill("head")
        self.cluster.json("status")  # Starts it again.
        self.await_sweep()
        self.assertIn(second, self.stored())
        self.cluster.rt("exp", "download", "1", "here")
        (result,) = (self.cluster.work / "here").glob("*/outputs/work/result")
        self.assertEqual(result.read_text(), "2\n")


if __name__ == "__main__":
    unittest.main()
