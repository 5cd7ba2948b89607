"""`rt submit --nproc-per-node N`: scripts for torchrun on real daemons."""

import functools
import json
import os
import signal
import subprocess
import unittest

from harness import BIN, ROOT, ClusterTest, wait_until
from test_train import HAS_TORCH, PYTHON

# What torchrun sets that rt must set too; the second part with the same values. (With rt there is
# no agent that has a store: rank 0 has it.)
NAMES = ["MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE"]
VALUES = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE",
          "ROLE_RANK", "ROLE_NAME", "ROLE_WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT",
          "TORCHELASTIC_MAX_RESTARTS", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "OMP_NUM_THREADS"]

SHOW = f"""
import json, os, sys
names = {NAMES + VALUES}
line = json.dumps({{name: os.environ.get(name) for name in names}}) + "\\n"
os.write(1, ("env " + line).encode())
"""
ARGUMENTS = """
if sys.argv[1:]:
    assert sys.argv[1:] == ["--lr", "${lr}", "a b"], sys.argv
"""

# The example, where rank 0 waits before its report of epoch 2 until a file says that it may go on.
# A row says with which epoch its rank began.
EXAMPLE = ROOT / "examples/torchrun/digits_ddp.py"
TRAIN = SHOW + f"""
import gc, pathlib, runpy, time
from rt import train

gc.disable()  # It finds nothing among the half million objects of PyTorch.
files, report, began = pathlib.Path(sys.argv.pop(1)), train.report, []

def held(metrics, checkpoint=None):
    began.append(metrics["epoch"])
    if metrics["epoch"] == 2 and os.environ["RANK"] == "0":
        (files / ("held-" + os.environ["TORCHELASTIC_RESTART_COUNT"])).touch()
        while not (files / "go").exists():
            time.sleep(0.01)
    report({{**metrics, "from": began[0]}}, checkpoint=checkpoint)

train.report = held
runpy.run_path({str(EXAMPLE)!r}, run_name="__main__")
gc.freeze()  # An end of the process does not look through them either.
"""


class SubmitRanksTest(ClusterTest):
    workers, cpus = 2, 2

    @classmethod
    def prepare(cls) -> None:
        cluster = cls.cluster
        if PYTHON.exists():
            cluster.env["PATH"] = f"{PYTHON.parent}:{cluster.env['PATH']}"
        cluster.env["RT_CLUSTER"] = "it"
        cluster.env.pop("OMP_NUM_THREADS", None)
        cls.files = cluster.home / "files"
        cls.files.mkdir()

    def script(self, name: str, text: str) -> str:
        (self.cluster.work / name).write_text(text)
        return name

    @classmethod
    @functools.cache
    def under_torchrun(cls) -> str:
        """What two ranks of the example print under torchrun, each after its environment."""
        (cls.cluster.work / "train.py").write_text(TRAIN)
        (cls.files / "go").touch()
        env = {**cls.cluster.env, "PYTHONPATH": str(ROOT / "python"),
               "PYTHONWARNINGS": "ignore"}
        out = subprocess.run(
            [str(PYTHON), "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
             "train.py", str(cls.files), "--epochs", "4"], text=True, capture_output=True,
            check=True, timeout=300, env=env, cwd=cls.cluster.work).stdout
        for path in cls.files.iterdir():
            path.unlink()
        return out

    def newest(self) -> int:
        return max(each["id"] for each in self.cluster.json("exp", "list")["items"])

    @staticmethod
    def environments(out: str) -> list:
        lines = [json.loads(line[4:]) for line in out.splitlines() if line.startswith("env ")]
        return sorted(lines, key=lambda env: env["RANK"])

    @staticmethod
    def said(out: str) -> list[str]:
        return [line for line in out.splitlines() if not line.startswith("env ")]

    @unittest.skipUnless(HAS_TORCH, "torch==2.13.0 is not installed in build/venv")
    def test_the_environment_is_that_of_torchrun(self) -> None:
        script = self.script("show.py", SHOW + ARGUMENTS)
        expected = self.environments(self.under_torchrun())
        ours = self.environments(self.cluster.rt(
            "submit", "--nproc-per-node", "2", script, "--", "--lr", "${lr}", "a b").stdout)
        self.assertEqual(len(ours), 2)
        for theirs, mine in zip(expected, ours):
            self.assertEqual({name: mine[name] for name in VALUES},
                             {name: theirs[name] for name in VALUES})
            self.assertFalse([name for name in NAMES if not mine[name]])
        self.assertEqual(ours[0]["TORCHELASTIC_RUN_ID"], ours[1]["TORCHELASTIC_RUN_ID"])
        alone = self.environments(
            self.cluster.rt("submit", "--nproc-per-node", "1", script).stdout)
        self.assertEqual([(env["RANK"], env["WORLD_SIZE"]) for env in alone], [("0", "1")])
        self.assertTrue(alone[0]["MASTER_PORT"])

    @unittest.skipUnless(HAS_TORCH, "torch==2.13.0 is not installed in build/venv")
    def test_the_example_trains_as_under_torchrun_after_a_rank_and_the_head_were_killed(
            self) -> None:
        expected = self.said(self.under_torchrun())
        self.assertRegex("".join(expected), r"accuracy 0\.\d+, last loss \d\.\d{9}")
        client = subprocess.Popen(
            [str(BIN / "rt"), "submit", "--nproc-per-node", "2", "--max-restarts", "1", "train.py",
             "--", str(self.files), "--epochs", "4"], text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, cwd=self.cluster.work,
            env=self.cluster.env)
        self.addCleanup(client.communicate)
        self.addCleanup(client.kill)
        wait_until("rank 0 is at epoch 2", (self.files / "held-0").exists, 180)
        trial = f"{self.newest()}/0"
        os.kill(self.cluster.json("trial", "show", trial)["attempts"][-1]["members"][1]["pid"],
                signal.SIGKILL)
        wait_until("rank 0 is there again", (self.files / "held-1").exists, 180)
        self.cluster.kill("head")
        (self.files / "go").touch()
        out, err = client.communicate(timeout=300)
        self.assertEqual((client.returncode, self.said(out)), (0, expected), err)
        shown = self.cluster.json("trial", "show", trial)
        self.assertEqual([each["outcome"] for each in shown["attempts"]], ["FAILED", "SUCCEEDED"])
        self.assertEqual((shown["metrics"]["epoch"], shown["metrics"]["from"], shown["reports"]),
                         (3, 2, 4))

    def test_the_exit_code_and_the_output_are_those_of_the_ranks(self) -> None:
        script = self.script("fails.py", "import os, sys, time\n"
                             "rank = os.environ['RANK']\n"
                             "os.write(1, f'rank {rank}\\n'.encode())\n"
                             "if rank == '1':\n    sys.exit(3)\n"
                             "time.sleep(60)\n")
        done = self.cluster.rt("submit", "--nproc-per-node", "2", script, check=False)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertLessEqual(set(done.stdout.splitlines()), {"rank 0", "rank 1"})
        self.assertIn("rank 1", done.stdout)
        script = self.script("killed.py", "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
        done = self.cluster.rt("submit", "--nproc-per-node", "1", script, check=False)
        self.assertEqual(done.returncode, 128 + signal.SIGSEGV, done.stderr)

    def test_each_node_has_its_ranks(self) -> None:
        script = self.script("nodes.py", "import os\n"
                             "names = ['RANK', 'GROUP_RANK', 'LOCAL_WORLD_SIZE', 'WORLD_SIZE']\n"
                             "text = ' '.join(os.environ[name] for name in names)\n"
                             "os.write(1, f'{text}\\n'.encode())\n")
        done = self.cluster.rt("submit", "--nnodes", "2", "--nproc-per-node", "2", script)
        self.assertEqual(sorted(done.stdout.splitlines()),
                         ["0 0 2 4", "1 0 2 4", "2 1 2 4", "3 1 2 4"])
        shown = self.cluster.json("trial", "show", f"{self.newest()}/0")
        nodes = [member["node_id"] for member in shown["attempts"][-1]["members"]]
        self.assertEqual((nodes[0], nodes[2]), (nodes[1], nodes[3]))
        self.assertNotEqual(nodes[0], nodes[2])
        done = self.cluster.rt("submit", "--nproc-per-node", "2", "--detach", "--name", "apart",
                               script, "-o", "json")
        self.assertEqual(json.loads(done.stdout)["name"], "apart")
        self.cluster.wait_experiment(json.loads(done.stdout)["id"])

    def test_what_cannot_run_is_refused_with_the_reason(self) -> None:
        script = self.script("plain.py", "")
        (self.cluster.work / "search.yaml").write_text("experiment: e\ncommand: ['true']\n")
        for words, said in (
                (["--nproc-per-node", "0", script],
                 "--nproc-per-node: must be a whole number from 1 to 1024, not '0'"),
                (["--nproc-per-node", "gpu", script], "not 'gpu'"),
                (["--nproc-per-node", "2", "--max-restarts", "-1", script], "not '-1'"),
                (["--nproc-per-node", "2", "--nnodes", "x", script], "--nnodes: must be a whole"),
                (["--nproc-per-node", "64", "--nnodes", "32", script],
                 "64 ranks on each of 32 nodes are 2048 ranks; at most 1024 run together"),
                (["--max-restarts", "2", script], "give --nproc-per-node as well"),
                (["--nproc-per-node", "2", "--resources", "cpu", script],
                 "--resources: 'cpu' is not of the form NAME=AMOUNT"),
                (["--nproc-per-node", "2", "none.py"], "none.py: no such file"),
                (["--nproc-per-node", "2", "search.yaml"], "leave out --nproc-per-node"),
                (["--nproc-per-node", "3", script],
                 "asks for 3 bundles of 1 cpu (3 on each node); the cluster's 2 nodes cannot"),
                (["--nproc-per-node", "1", "--resources", "gpu=1", script], "gpu")):
            with self.subTest(words=words):
                done = self.cluster.rt("submit", *words, check=False)
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main()
