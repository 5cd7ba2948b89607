"""What exists on a cluster only comes home: downloads, the end of a submit, and a teardown."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import textwrap
import unittest
from typing import Any

from harness import BIN, Cluster, ClusterTest, wait_until

# Two checkpoints are saved and the newer one is kept; the trial prints on both streams.
SEARCH = """
experiment: {name}
command: [sh, ./trial.sh, '${{v}}']
space: {{v: {{grid: [3, 5]}}}}
metric: loss
mode: min
checkpoints: {{num_to_keep: {keep}}}
"""
TRIAL = """
set -e
echo "said $1"; echo "erred $1" >&2
for step in 1 2; do
  mkdir -p "$step/sub"; echo "weights $1 $step" > "$step/model"; echo deep > "$step/sub/file"
  {rt} report loss=$1 --step $step --checkpoint "$step"
done
"""


def write_search(folder: pathlib.Path, name: str = "x", keep: int = 1) -> None:
    (folder / f"{name}.yaml").write_text(SEARCH.format(name=name, keep=keep))
    (folder / "trial.sh").write_text(TRIAL.format(rt=BIN / "rt"))


def files_of(folder: pathlib.Path) -> dict[str, str]:
    """The text of every file that is no record of a download."""
    return {str(path.relative_to(folder)): path.read_text(errors="replace")
            for path in sorted(folder.rglob("*"))
            if path.is_file() and not path.name.startswith(".rt-download.")}


class Results(unittest.TestCase):
    """What a search of write_search leaves."""

    def check_trial(self, trial: pathlib.Path, value: int) -> None:
        self.assertEqual((trial / "stdout").read_text(), f"said {value}\n")
        self.assertEqual((trial / "stderr").read_text(), f"erred {value}\n")
        self.assertEqual((trial / "checkpoint_000001/model").read_text(), f"weights {value} 2\n")
        self.assertEqual((trial / "checkpoint_000001/sub/file").read_text(), "deep\n")
        self.assertFalse((trial / "checkpoint_000000").exists())
        self.assertEqual(json.loads((trial / ".rt-checkpoints.json").read_text()),
                         {"checkpoint_000001": 2})
        rows = [json.loads(line) for line in (trial / "result.json").read_text().splitlines()]
        self.assertEqual([row["loss"] for row in rows], [value, value])
        self.assertEqual(json.loads((trial / "params.json").read_text()), {"v": value})
        self.assertIn("loss", (trial / "progress.csv").read_text().splitlines()[0])
        self.assertEqual(len(list(trial.glob("events.out.tfevents.*"))), 1)
        self.assertEqual([path.name for path in trial.iterdir() if ".rt-part" in path.name], [])

    def check_search(self, folder: pathlib.Path) -> None:
        trials = sorted(path for path in folder.iterdir() if path.is_dir())
        self.assertEqual(len(trials), 2, trials)
        for trial, value in zip(trials, (3, 5)):
            self.check_trial(trial, value)
        search = json.loads((folder / ".rt-search.json").read_text())
        self.assertEqual((search["state"], search["metric"]), ("COMPLETED", "loss"))
        self.assertEqual((search["objectives"], search["constraints"]), (None, None))
        self.assertEqual([(one["directory"], one["has_row"]) for one in search["trials"]],
                         [(trial.name, True) for trial in trials])


class DownloadTest(Results, ClusterTest):
    """Downloads by people with certificates of their own, each in a home of their own."""

    workers = 1

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        write_search(cls.cluster.work)
        cls.cluster.rt("submit", "x.yaml", "--no-download")
        cls.number = cls.cluster.json("exp", "show", "last")["id"]

    def setUp(self) -> None:
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="rt-person-"))
        self.addCleanup(shutil.rmtree, self.root)
        self.results = self.root / "results"

    def person(self, role: str) -> None:
        """This test's client is somebody else's, with a certificate of that role."""
        token = self.cluster.rt("token", "create", "--role", role).stdout
        (self.root / "token").touch(0o600)
        (self.root / "token").write_text(token)
        address = self.cluster.json("status")["cluster"]["head_address"]
        self.rt("context", "add", "far", "--head", address, "--token-file",
                str(self.root / "token"))

    def env(self) -> dict[str, str]:
        return {**self.cluster.env, "RT_HOME": str(self.root / "home"),
                "RT_RESULTS": str(self.results)}

    def rt(self, *args: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([str(BIN / "rt"), *args], env=self.env(), cwd=self.root, text=True,
                              capture_output=True, timeout=120, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, code, f"rt {args}\n{done.stdout}\n{done.stderr}")
        return done

    def download(self, *args: str) -> Any:
        done = self.rt("exp", "download", *args, "-o", "json")
        reply = json.loads(done.stdout)
        self.assertEqual((reply["schema"], reply["action"]), (1, "download"))
        return reply["items"][0]

    def test_everything_comes_and_then_only_what_changed(self) -> None:
        self.person("user")
        first = self.download(str(self.number))
        self.assertEqual(first["directory"], str(self.results / "x"))
        self.assertEqual((first["missing"], first["lost"], first["kind"], first["state"]),
                         ([], [], "experiment", "COMPLETED"))
        self.check_search(self.results / "x")
        own = pathlib.Path(self.cluster.experiment(self.number)["results_dir"])
        for path in own.rglob("*"):
            if path.is_file() and not path.name.startswith("."):
                there = self.results / "x" / path.relative_to(own)
                self.assertEqual(there.read_bytes(), path.read_bytes(), path)
        self.assertEqual(self.download(str(self.number))["files"], 0)
        # A file that was removed or altered here is fetched again, and nothing else.
        trial = next(path for path in (self.results / "x").iterdir() if path.is_dir())
        before = files_of(self.results / "x")
        (trial / "result.json").write_text("altered")
        (trial / "stdout").unlink()
        self.assertEqual(self.download("x")["files"], 2)
        self.assertEqual(files_of(self.results / "x"), before)
        self.assertIn("has everything", self.rt("exp", "download", str(self.number)).stderr)

    def test_directories(self) -> None:
        self.person("user")
        (self.results / "x").mkdir(parents=True)  # Of somebody else: it is not touched.
        (self.results / "x/mine").write_text("mine")
        for _ in range(2):
            self.assertEqual(self.download("x")["directory"], str(self.results / "x-2"))
        self.assertEqual(sorted(os.listdir(self.results / "x")), ["mine"])
        self.assertEqual(self.download("x", "here")["directory"], str(self.root / "here"))
        self.check_search(self.root / "here")
        refused = self.rt("exp", "download", "x", "results/x", code=1)
        self.assertIn("is not empty", refused.stderr)
        self.rt("exp", "download", "99", code=3)

    def test_two_downloads_into_one_directory_take_turns(self) -> None:
        self.person("user")
        clients = [subprocess.Popen([str(BIN / "rt"), "exp", "download", "x", "one"],
                                    env=self.env(), cwd=self.root, stdin=subprocess.DEVNULL)
                   for _ in range(4)]
        self.assertEqual([client.wait(60) for client in clients], [0] * 4)
        self.check_search(self.root / "one")

    def test_a_viewer_reads_all_but_the_store(self) -> None:
        self.person("viewer")
        done = self.rt("exp", "download", "x", code=5)
        self.assertEqual(done.stderr.count("not downloaded: "), 1, done.stderr)
        trial = next(path for path in (self.results / "x").iterdir() if path.is_dir())
        self.assertIn("said", (trial / "stdout").read_text())
        self.assertTrue((trial / "result.json").exists())
        self.assertFalse((trial / "checkpoint_000001").exists())
        self.rt("trial", "checkpoint", f"{self.number}/0", code=5)

    def test_a_checkpoint_of_one_trial(self) -> None:
        write_search(self.cluster.work, "two", keep=2)
        self.cluster.rt("submit", "two.yaml", "--no-download")
        number = self.cluster.json("exp", "show", "last")["id"]
        self.person("user")
        done = self.rt("trial", "checkpoint", f"{number}/1")
        self.assertEqual(done.stdout, f"{self.root}/checkpoint_000001\n")
        self.assertEqual((self.root / "checkpoint_000001/model").read_text(), "weights 5 2\n")
        self.rt("trial", "checkpoint", f"{number}/1")  # It is there already.
        (self.root / "checkpoint_000001/model").write_text("mine")
        refused = self.rt("trial", "checkpoint", f"{number}/1", code=1)
        self.assertIn("holds something else", refused.stderr)
        self.assertEqual((self.root / "checkpoint_000001/model").read_text(), "mine")
        item = json.loads(self.rt("trial", "checkpoint", f"{number}/0", "first", "--id", "1",
                                  "-o", "json").stdout)["items"][0]
        self.assertEqual((item["id"], item["checkpoint"], item["step"], item["directory"]),
                         (f"{number}/0", 1, 1, str(self.root / "first")))
        self.assertEqual((self.root / "first/model").read_text(), "weights 3 1\n")
        self.rt("trial", "checkpoint", f"{number}/0", "none", "--id", "9", code=3)
        self.rt("trial", "checkpoint", f"{number}/0", "best", "--best")
        self.assertEqual((self.root / "best/model").read_text(), "weights 3 2\n")

    def test_a_download_that_is_killed_continues(self) -> None:
        (self.cluster.work / "big.sh").write_text(
            f"head -c 300000000 /dev/urandom > model\n{BIN / 'rt'} report m=1 --checkpoint model\n"
            "rm model\n")  # It would come a second time, as what the trial wrote.
        (self.cluster.work / "big.yaml").write_text(
            "experiment: big\ncommand: [sh, ./big.sh]\nmetric: m\nmode: min\n")
        self.cluster.rt("submit", "big.yaml", "--no-download")
        self.person("user")
        client = subprocess.Popen([str(BIN / "rt"), "exp", "download", "big"], env=self.env(),
                                  cwd=self.root, stdin=subprocess.DEVNULL)

        def some() -> bool:
            return any(path.stat().st_size > 20_000_000
                       for path in self.results.glob("big/*/.checkpoint*/*"))
        wait_until("some of it has come", some)
        client.send_signal(signal.SIGKILL)
        self.assertEqual(client.wait(), -signal.SIGKILL)
        self.assertEqual(list(self.results.glob("big/*/checkpoint_*")), [])
        again = self.download("big")
        self.assertLess(again["bytes"], 285_000_000)
        model = next(self.results.glob("big/*/checkpoint_000000/model"))
        self.assertEqual(model.stat().st_size, 300_000_000)
        self.assertEqual([path.name for path in model.parent.parent.iterdir()
                          if path.name.startswith(".checkpoint")], [])
        self.rt("trial", "checkpoint", "big/0", "whole")
        self.assertEqual((self.root / "whole/model").read_bytes(), model.read_bytes())

    def test_a_running_trial_is_downloaded_as_far_as_it_is(self) -> None:
        go = self.cluster.work / "go"
        (self.cluster.work / "slow.sh").write_text(textwrap.dedent(f"""
            echo one; {BIN / 'rt'} report m=1
            while [ ! -e {go} ]; do sleep 0.05; done
            echo two; {BIN / 'rt'} report m=2
        """))
        (self.cluster.work / "slow.yaml").write_text(
            "experiment: slow\ncommand: [sh, ./slow.sh]\nmetric: m\nmode: min\n")
        self.cluster.rt("submit", "slow.yaml", "--detach")
        self.person("user")
        wait_until("a row is there", lambda: any(
            one["reports"] for one in self.cluster.json("trial", "list", "--exp", "last")["items"]))

        def text(name: str) -> str:
            self.download("slow")
            found = list((self.results / "slow").glob(f"*/{name}"))
            return found[0].read_text() if found else ""
        wait_until("the row was written", lambda: '"m":1' in text("result.json"))
        self.assertEqual(text("stdout"), "one\n")
        go.touch()
        self.cluster.wait_experiment(self.cluster.json("exp", "show", "slow")["id"])
        self.assertEqual(text("stdout"), "one\ntwo\n")
        self.assertEqual(text("result.json").count("\n"), 2)

    def test_a_foreground_submit_elsewhere_brings_its_results_home(self) -> None:
        self.person("user")
        write_search(self.root, "mine")
        done = self.rt("submit", "mine.yaml")
        self.assertIn(f"are in {self.results}/mine", done.stderr)
        self.check_search(self.results / "mine")
        write_search(self.root, "kept")
        self.rt("submit", "kept.yaml", "--no-download")
        self.assertFalse((self.results / "kept").exists())


class TeardownTest(Results):
    def setUp(self) -> None:
        self.cluster = Cluster(workers=1)
        self.addCleanup(self.cluster.close)
        write_search(self.cluster.work)
        self.results = self.cluster.home / "results"
        self.archive = self.cluster.home / "home/archive/it"

    def is_gone(self) -> bool:
        # A process that was killed is there until the kernel has taken its memory back.
        wait_until("no process of the cluster is left", lambda: not self.cluster.leftovers(), 5)
        return not (self.cluster.home / "home/clusters/it").exists()

    def test_start_stop_brings_home_what_a_plain_script_does(self) -> None:
        self.cluster.rt("submit", "cluster.yaml", "--start", "--stop", "x.yaml")
        self.assertTrue(self.is_gone())
        self.check_search(self.results / "x")
        (self.cluster.work / "s.py").write_text("print('from the job')\n")
        done = self.cluster.rt("submit", "cluster.yaml", "--start", "--stop", "s.py")
        self.assertIn("continues from its archive", done.stderr)
        self.assertEqual((self.results / "jobs/s.py/stdout").read_text(), "from the job\n")

    def test_a_client_that_vanishes_leaves_that_to_the_watcher(self) -> None:
        go, up = self.cluster.work / "go", self.cluster.work / "up"
        with (self.cluster.work / "trial.sh").open("a") as script:
            script.write(f"touch {up}; while [ ! -e {go} ]; do sleep 0.05; done\n")
        client = subprocess.Popen(
            [str(BIN / "rt"), "submit", "cluster.yaml", "--start", "--stop", "x.yaml"],
            env=self.cluster.env, cwd=self.cluster.work, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until("a trial runs", up.exists)
        client.kill()
        client.wait()
        go.touch()
        wait_until("the cluster is gone", self.is_gone)
        self.check_search(self.results / "x")

    def test_what_cannot_come_home_stops_the_teardown(self) -> None:
        self.results.mkdir()
        (self.results / "jobs").write_text("in the way")
        (self.cluster.work / "s.py").write_text("print('from the job')\n")
        done = self.cluster.rt("submit", "cluster.yaml", "--start", "--stop", "s.py", check=False)
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn("not brought home: job 1 (s.py): ", done.stderr)
        self.assertIn("rt down it --no-download", done.stderr)
        jobs = self.cluster.json("job", "list", "-c", "it")["items"]  # It stays up.
        self.assertEqual(jobs[0]["state"], "SUCCEEDED")
        # So does `rt down`, and it ends nothing.
        self.cluster.rt("submit", "--detach", "sleep", "-c", "it", "--", "600")
        done = self.cluster.rt("down", "it", check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("not brought home: job 1 (s.py): ", done.stderr)
        wait_until("the job runs", lambda: self.cluster.json("job", "list", "-c", "it")["items"][1][
            "state"] == "RUNNING")
        self.cluster.rt("job", "stop", "2", "-c", "it")
        (self.results / "jobs").unlink()
        self.cluster.rt("down", "it")
        self.assertTrue(self.is_gone())
        self.assertEqual((self.results / "jobs/s.py/stdout").read_text(), "from the job\n")

    def test_no_download_takes_it_down_all_the_same(self) -> None:
        self.results.mkdir()
        (self.results / "jobs").write_text("in the way")
        (self.cluster.work / "s.py").write_text("print('from the job')\n")
        self.cluster.rt("submit", "cluster.yaml", "--start", "--stop", "--no-download", "s.py")
        self.assertTrue(self.is_gone())

    def test_down_says_what_it_ends_and_up_continues(self) -> None:
        self.cluster.up()
        self.cluster.rt("submit", "x.yaml", "--no-download")
        self.cluster.rt("submit", "--detach", "--name", "long", "sleep", "--", "600")
        wait_until("the job runs",
                   lambda: self.cluster.json("job", "show", "1")["state"] == "RUNNING")
        done = self.cluster.rt("down", "-o", "json")
        self.assertIn("ending job 1 (long)", done.stderr)
        self.assertEqual(json.loads(done.stdout), {
            "cluster": {"name": "it", "state": "DOWN"},
            "ended": [{"id": 1, "kind": "job", "state": "STOPPING"}]})
        self.assertTrue(self.is_gone())
        self.check_search(self.results / "x")
        self.assertTrue(self.archive.exists())
        self.assertEqual(self.cluster.json("context", "list")["items"], [])
        self.assertEqual(self.cluster.json("context", "list")["archived"], ["it"])
        done = self.cluster.rt("up", "cluster.yaml")
        self.assertIn("continues from its archive", done.stderr)
        self.assertFalse(self.archive.exists())
        self.assertEqual(self.cluster.json("status")["nodes"]["by_state"], {"READY": 1})
        self.assertEqual(self.cluster.json("exp", "show", "1")["state"], "COMPLETED")
        self.assertEqual(self.cluster.json("job", "show", "1")["state"], "STOPPED")
        self.cluster.rt("trial", "checkpoint", "1/1", "again")
        self.assertEqual((self.cluster.work / "again/model").read_text(), "weights 5 2\n")
        self.assertEqual(self.cluster.rt("logs", "1/1", "--stream", "stdout").stdout, "said 5\n")
        self.cluster.rt("submit", "x.yaml")  # Names and numbers continue, too.
        self.assertEqual(self.cluster.json("exp", "show", "last")["id"], 2)
        self.check_search(self.results / "x-2")

    def test_purge_deletes_the_history(self) -> None:
        for purged_when_up in (True, False):
            self.cluster.up()
            self.cluster.rt("submit", "x.yaml", "--no-download")
            self.assertEqual(self.cluster.json("exp", "show", "last")["id"], 1)
            if not purged_when_up:
                self.cluster.rt("down")
                self.assertTrue(self.archive.exists())
            self.cluster.rt("down", "it", "--purge")
            self.assertTrue(self.is_gone())
            self.assertFalse(self.archive.exists())
        self.check_search(self.results / "x")
        self.check_search(self.results / "x-2")

    def test_an_up_that_fails_leaves_the_archive_as_it_was(self) -> None:
        self.cluster.up()
        self.cluster.rt("submit", "x.yaml")
        self.cluster.rt("down")
        bad = self.cluster.work / "bad.yaml"
        bad.write_text(self.cluster.yaml.read_text() + "checkpoint_store: {url: /proc/none}\n")
        self.assertNotEqual(self.cluster.rt("up", "bad.yaml", check=False).returncode, 0)
        self.assertTrue(self.is_gone())
        self.assertTrue(self.archive.exists())
        self.cluster.up()
        self.assertEqual(self.cluster.json("exp", "show", "1")["state"], "COMPLETED")

    def test_results_that_were_removed_do_not_stop_a_teardown(self) -> None:
        self.cluster.up()
        self.cluster.rt("submit", "x.yaml", "--no-download")
        shutil.rmtree(self.results / "x")
        done = self.cluster.rt("down")
        self.assertIn("was removed", done.stderr)
        self.assertTrue(self.is_gone())


if __name__ == "__main__":
    unittest.main()
