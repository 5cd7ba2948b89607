"""`rt submit`: what travels, what comes back, and who survives whom."""

import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import textwrap
import unittest
from typing import Any

from harness import BIN, Cluster, ClusterTest, driver_python, wait_until

WAIT = "import os, time\nwhile not os.path.exists({path!r}): time.sleep(0.02)\n"


class SubmitTest(ClusterTest):
    workers = 1

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.work = cls.cluster.work

    def write(self, name: str, text: str, mode: int = 0o644) -> str:
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        path.chmod(mode)
        return name

    def submit(self, *args: str, code: int = 0, **kwargs: Any) -> Any:
        done = self.cluster.rt("submit", *args, check=False, **kwargs)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def start(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen([str(BIN / "rt"), "submit", *args], env=self.cluster.env, text=True,
                                cwd=self.work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def last_job(self) -> Any:
        return self.cluster.json("job", "show", "last")

    def wait_job(self, number: int, *states: str) -> Any:
        def there() -> Any:
            job = self.cluster.json("job", "show", str(number))
            return job if job["state"] in states else None
        return wait_until(f"job {number} is {states}", there)

    def test_no_output_is_missed_however_soon_it_comes(self) -> None:
        # A log may be asked for in the very message that starts its program.
        script = self.write("say.py", "print('said')\n")
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            done = list(pool.map(lambda _: self.submit(script), range(48)))
        self.assertEqual([one.stdout for one in done], ["said\n"] * 48)

    def test_streams_stay_apart_and_unprefixed(self) -> None:
        script = self.write("streams.py", """
            import sys
            sys.stdout.write("out without end")
            sys.stderr.write("err 1\\nerr 2\\n")
            sys.stdout.buffer.write(b"\\xff\\x00")
        """)
        done = subprocess.run([str(BIN / "rt"), "submit", script], env=self.cluster.env,
                              cwd=self.work, capture_output=True, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, b"out without end\xff\x00")
        lines = done.stderr.splitlines()
        self.assertEqual([line for line in lines if not line.startswith(b"rt: ")],
                         [b"err 1", b"err 2"])

    def test_much_output_arrives_whole(self) -> None:
        script = self.write("much.py", "for i in range(200000): print(i)\n")
        done = self.submit(script)
        self.assertEqual(done.stdout, "".join(f"{i}\n" for i in range(200_000)))

    def test_exit_codes_are_the_scripts_own(self) -> None:
        for code in (0, 1, 7, 125, 255):
            self.submit("sh", "--", "-c", f"exit {code}", code=code)
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV):
            self.submit("sh", "--", "-c", f"kill -{int(number)} $$", code=128 + number)
        self.assertEqual(self.last_job()["signal"], 11)

    def test_what_cannot_be_started_says_why(self) -> None:
        script = self.write("lost.sh", "#!/no/such/shell -e\necho said\n", 0o755)
        why = "program not found: /no/such/shell, the interpreter of ./lost.sh"
        done = self.submit(script, code=127)
        self.assertIn(f"rt: the job could not be started: {why}", done.stderr)
        self.assertEqual(self.last_job()["reason"], why)
        done = self.submit(self.write("own.sh", "#!/bin/sh\nexit 127\n", 0o755), code=127)
        self.assertNotIn("could not be started", done.stderr)
        self.write("lost.yaml", "experiment: lost\ncommand: [./lost.sh]\n")
        self.assertRegex(self.submit("lost.yaml", code=1).stderr,
                         rf"rt: trial \d+/0 failed: {re.escape(why)}")
        self.write("absent.yaml", "experiment: absent\nscript: ./absent.sh\n")
        error = self.submit("absent.yaml", code=2).stderr
        self.assertRegex(error, r"absent.yaml:2:\d+: script: there is no file './absent.sh'")

    def test_the_first_failed_trial_is_named_with_its_last_line(self) -> None:
        self.write("fails.sh", "#!/bin/sh\necho begins; echo no >&2; exit 3\n", 0o755)
        self.write("fails.yaml", "experiment: fails\ncommand: [./fails.sh]\nnum_samples: 2\n")
        error = self.submit("fails.yaml", code=1).stderr
        self.assertRegex(error, r"rt: trial \d+/0 failed: exited with code 3; its last line: no\n")
        number = self.cluster.json("exp", "show", "last")["id"]
        why = self.cluster.rt("trial", "why", f"{number}/0").stdout
        self.assertEqual(why.count("exited with code 3"), 2, why)  # The trial, and its attempt.
        self.assertNotIn("exit code", why)

    def test_a_killed_driver_is_told_of_with_the_experiments_that_go_on(self) -> None:
        done = self.submit("sh", "--", "-c", "kill -9 $$", code=137)
        self.assertRegex(done.stderr, r"rt: job \d+ was killed by signal 9\n")
        script = self.write("dies.py", """
            import os, time
            from rt import tune

            class Killer(tune.Callback):
                def on_trial_start(self, *args, **info):
                    os.kill(os.getpid(), 9)

            tune.run(lambda config: time.sleep(600), callbacks=[Killer()], verbose=0)
        """)
        env = dict(self.cluster.env)
        folder = pathlib.Path(driver_python()).parent
        self.cluster.env = {**env, "PATH": f"{folder}:{env['PATH']}"}
        try:
            done = self.submit("--no-download", script, code=137)
        finally:
            self.cluster.env = env
        job = self.last_job()
        number = job["experiment_ids"][0]
        self.assertIn(f"rt: job {job['id']} was killed by signal 9; experiment {number} continues: "
                      f"rt watch {number}, rt exp stop {number}, rt exp download {number}\n",
                      done.stderr)
        self.cluster.rt("exp", "stop", str(number))
        self.assertEqual(self.cluster.wait_experiment(number)["state"], "STOPPED")

    def test_a_large_snapshot_names_what_takes_the_room(self) -> None:
        (self.work / "data").mkdir()
        with (self.work / "data/big").open("wb") as big:
            big.truncate(120 << 20)  # Holes: the same chunk, again and again.
        (self.work / "wv").mkdir()
        (self.work / "wv/pyvenv.cfg").touch()
        try:
            done = self.submit("ls", "--", ".")
        finally:
            shutil.rmtree(self.work / "data")
            shutil.rmtree(self.work / "wv")
        self.assertRegex(done.stderr, r"rt: snapshot: 120\.0 MiB in \d+ files?; the largest: data/ "
                                      r"120\.0 MiB; add it to \.rtignore to leave it out\n")
        self.assertIn("rt: left out wv/: a virtual environment ('!wv/' in .rtignore takes it "
                      "along)\n", done.stderr)
        self.assertIn("data\n", done.stdout)
        self.assertNotIn("wv\n", done.stdout)

    def test_stop_without_a_cluster_file_is_refused(self) -> None:
        script = self.write("quick.py", "print('hello')\n")
        self.assertIn("--stop needs a CLUSTER.yaml", self.submit("--stop", script, code=2).stderr)

    def test_any_executable_with_exact_arguments(self) -> None:
        args = ["a b", "it's", '"q"', "$HOME", "new\nline", "", "*", "--flag", "-x", "\\", "é"]
        self.write("bin/show", "#!/bin/sh\nfor a; do printf '%s\\0' \"$a\"; done\n", 0o755)
        done = self.submit("bin/show", "--", *args)
        self.assertEqual(done.stdout, "".join(a + "\0" for a in args))
        done = self.submit("--args", "one 'two three' \"four\" '' $HOME", "./bin/show")
        self.assertEqual(done.stdout.split("\0")[:-1], ["one", "two three", "four", "", "$HOME"])
        self.assertEqual(self.last_job()["argv"][1:], ["one", "two three", "four", "", "$HOME"])

    def test_python_is_the_submitters(self) -> None:
        script = self.write("who.py", "import sys; print(sys.executable, __file__)\n")
        expected = subprocess.run(["python3", "-c", "import sys; print(sys.executable)"],
                                  capture_output=True, text=True, check=True).stdout.strip()
        self.assertEqual(self.submit(script).stdout.split()[0], expected)

    def test_name_detach_and_forms_of_output(self) -> None:
        script = self.write("quick.py", "print('hello')\n")
        self.assertRegex(self.submit("--detach", script).stdout, r"^job \d+\n$")
        self.assertRegex(self.submit("--detach", script, "-o", "quiet").stdout, r"^\d+\n$")
        done = self.submit("--detach", "--name", "fine", script, "-o", "json")
        number = json.loads(done.stdout)["id"]
        self.assertEqual(self.wait_job(number, "SUCCEEDED")["name"], "fine")
        self.assertEqual(self.cluster.rt("logs", f"j{number}").stdout, "hello\n")

    def test_the_snapshot_and_its_exceptions(self) -> None:
        tree = self.work / "tree"
        for name in (".gitignore", ".rtignore", "kept.txt", "sub/kept.py", "sub/no.log", "big.bin",
                     ".git/config", "data/x.dat", "a link's target"):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_text(name)
        (tree / ".gitignore").write_text("*.log\n/data/\n")
        (tree / ".rtignore").write_text("big.bin\n")
        (tree / "link").symlink_to("kept.txt")
        (tree / "outputs/empty").mkdir(parents=True)
        (tree / "list.py").write_text(
            "import os\nfor d, ds, fs in os.walk('.'):\n  for f in fs or ([] if ds else ['']):\n"
            "    print(os.path.relpath(os.path.join(d, f)))\n")
        (tree / "list.py").chmod(0o755)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(tree / "sock"))
            env = {**self.cluster.env, "RT_RESULTS": str(tree / "results")}
            (tree / "results").mkdir()
            (tree / "results/old.json").write_text("{}")
            done = subprocess.run([str(BIN / "rt"), "submit", "list.py"], env=env, cwd=tree,
                                  capture_output=True, text=True, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()),
                         sorted([".gitignore", ".rtignore", "kept.txt", "sub/kept.py", "link",
                                 "a link's target", "list.py", "outputs/empty"]))

    def test_rt_home_inside_the_directory_stays_out(self) -> None:
        env = {**self.cluster.env, "RT_HOME": str(self.work / "home")}
        shutil.copytree(self.cluster.home / "home", self.work / "home", symlinks=True,
                        ignore=lambda _, names: [n for n in names if n in ("blobs", "attempts")])
        done = subprocess.run([str(BIN / "rt"), "submit", "find", "--", "."], env=env,
                              cwd=self.work, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("credentials", done.stdout)
        self.assertNotIn("./home", done.stdout)
        shutil.rmtree(self.work / "home")

    def test_only_missing_chunks_travel(self) -> None:
        (self.work / "weights.bin").write_bytes(os.urandom(3 << 20))
        script = self.write("size.py", "import os; print(os.path.getsize('weights.bin'))\n")
        first = self.submit("-v", script)
        self.assertEqual(first.stdout, f"{3 << 20}\n")
        self.assertNotIn(" 0 chunks pushed", first.stderr)
        second = self.submit("-v", script)
        self.assertIn(" 0 chunks pushed", second.stderr)
        (self.work / "weights.bin").unlink()
        again = self.submit("-v", script, code=1)
        self.assertIn(" 0 chunks pushed", again.stderr)

    def test_ctrl_c_stops_the_job(self) -> None:
        script = self.write("forever.py", "import time\nprint('up', flush=True)\ntime.sleep(600)\n")
        client = self.start(script)
        assert client.stdout is not None
        self.assertEqual(client.stdout.readline(), "up\n")
        client.send_signal(signal.SIGINT)
        client.communicate(timeout=60)
        self.assertEqual(client.returncode, 130)
        job = self.wait_job(self.last_job()["id"], "STOPPED")
        self.assertIn("Ctrl-C", job["reason"])

    def test_losing_the_client_only_detaches(self) -> None:
        for number in (signal.SIGKILL, signal.SIGHUP):
            go = self.work / f"go-{number}"
            script = self.write("waits.py", "print('up', flush=True)\n"
                                + WAIT.format(path=str(go)) + "print('end')\n")
            client = self.start(script)
            assert client.stdout is not None
            self.assertEqual(client.stdout.readline(), "up\n")
            client.send_signal(number)
            client.communicate(timeout=60)
            job = self.last_job()
            self.assertEqual(job["state"], "RUNNING")
            go.touch()
            self.wait_job(job["id"], "SUCCEEDED")
            self.assertEqual(self.cluster.rt("logs", f"j{job['id']}").stdout, "up\nend\n")

    def test_a_head_that_dies_under_a_foreground_submit(self) -> None:
        go = self.work / "go-head"
        script = self.write("long.py", "print('up', flush=True)\n" + WAIT.format(path=str(go))
                            + "print('end')\nraise SystemExit(9)\n")
        client = self.start(script)
        assert client.stdout is not None
        self.assertEqual(client.stdout.readline(), "up\n")
        self.cluster.kill("head")
        go.touch()
        out, err = client.communicate(timeout=60)
        self.assertEqual((client.returncode, out), (9, "end\n"), err)

    def test_an_experiment_yaml_fails_only_when_the_experiment_does(self) -> None:
        self.write("two.py", "import sys\nprint('RT_REPORT {\"a\": %s}' % sys.argv[1])\n"
                   "sys.exit(int(sys.argv[1]))\n")
        for values, code in (("[0, 1]", 0), ("[1, 2]", 1)):
            self.write("e.yaml", f"experiment: e\nspace: {{v: {{grid: {values}}}}}\n"
                       "command: [python3, two.py, '${v}']\n")
            done = self.submit("e.yaml", code=code)
            self.assertEqual("failed" in done.stderr, code == 1)

    def test_a_driver_inside_a_job_owns_its_experiments(self) -> None:
        self.write("model.py", "def loss(x): return (x - 2) ** 2\n")
        script = self.write("driver.py", """
            from rt import tune
            import model

            def objective(config):
                import model  # From the job's bundle, in the trial.
                tune.report({"loss": model.loss(config["x"])})

            found = tune.run(objective, config={"x": tune.grid_search([1, 2, 3])}, metric="loss",
                             mode="min", verbose=0)
            print("best", found.best_config)
        """)
        env = dict(self.cluster.env)
        folder = pathlib.Path(driver_python()).parent
        self.cluster.env = {**env, "PATH": f"{folder}:{env['PATH']}"}
        try:
            done = self.submit(script)
        finally:
            self.cluster.env = env
        self.assertIn("best {'x': 2}", done.stdout)
        job = self.last_job()
        self.assertEqual(len(job["experiment_ids"]), 1)
        experiment = self.cluster.experiment(job["experiment_ids"][0])
        self.assertEqual(experiment["job_id"], job["id"])
        self.assertEqual(experiment["bundle"], job["bundle"])


class StartStopTest(unittest.TestCase):
    def setUp(self) -> None:
        self.cluster = Cluster(workers=1)
        self.script = self.cluster.work / "s.py"
        self.script.write_text("print('ran')\n")

    def tearDown(self) -> None:
        self.cluster.close()

    def is_gone(self) -> bool:
        there = (self.cluster.home / "home/clusters/it").exists()
        return not there and not self.cluster.leftovers()

    def test_start_stop_leaves_nothing_whatever_the_outcome(self) -> None:
        for text, code in (("print('ran')", 0), ("raise SystemExit(4)", 4)):
            self.script.write_text(text + "\n")
            done = self.cluster.rt("submit", "cluster.yaml", "--start", "--stop", "s.py",
                                   check=False)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertTrue(self.is_gone(), self.cluster.leftovers())
        self.assertEqual(self.cluster.json("context", "list")["items"], [])

    def test_results_are_there_after_the_cluster_is_gone(self) -> None:
        (self.cluster.work / "x.yaml").write_text(
            "experiment: x\ncommand: [sh, -c, 'echo \"RT_REPORT {\\\"m\\\": 5}\"']\nmetric: m\n")
        self.cluster.rt("submit", "cluster.yaml", "--start", "--stop", "x.yaml")
        self.assertTrue(self.is_gone())
        rows = list((self.cluster.home / "results/x").glob("*/result.json"))
        self.assertEqual(json.loads(rows[0].read_text())["m"], 5)

    def test_stop_spares_a_cluster_that_was_up(self) -> None:
        self.cluster.up()
        pids = [self.cluster.pid("head"), self.cluster.pid("worker-1")]
        self.cluster.rt("submit", "cluster.yaml", "--start", "--stop", "s.py")
        self.assertEqual(pids, [self.cluster.pid("head"), self.cluster.pid("worker-1")])
        self.assertEqual(self.cluster.json("status")["nodes"]["by_state"], {"READY": 1})

    def test_stop_spares_a_cluster_on_which_others_live(self) -> None:
        go, up = self.cluster.work / "go", self.cluster.work / "up"
        self.script.write_text(f"open({str(up)!r}, 'w')\n" + WAIT.format(path=str(go)))
        client = subprocess.Popen(
            [str(BIN / "rt"), "submit", "cluster.yaml", "--start", "--stop", "s.py"],
            env=self.cluster.env, cwd=self.cluster.work, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until("the job runs", up.exists)
        self.cluster.rt("-c", "it", "submit", "--detach", "sleep", "--", "600")
        go.touch()
        self.assertEqual(client.wait(60), 0)
        jobs = self.cluster.json("job", "list", "-c", "it")["items"]
        self.assertEqual([job["state"] for job in jobs], ["SUCCEEDED", "RUNNING"])

    def test_the_cluster_goes_also_when_its_client_vanishes(self) -> None:
        for number in (signal.SIGKILL, signal.SIGHUP):
            go, up = self.cluster.work / f"go{number}", self.cluster.work / f"up{number}"
            self.script.write_text(f"open({str(up)!r}, 'w')\n" + WAIT.format(path=str(go)))
            client = subprocess.Popen(
                [str(BIN / "rt"), "submit", "cluster.yaml", "--start", "--stop", "s.py"],
                env=self.cluster.env, cwd=self.cluster.work, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wait_until("the job runs", up.exists)
            client.send_signal(number)
            client.wait(60)
            job = self.cluster.json("job", "show", "last", "-c", "it")
            self.assertEqual(job["state"], "RUNNING")
            go.touch()
            wait_until("the cluster is gone", self.is_gone)

    def test_start_alone_leaves_it_up(self) -> None:
        self.cluster.rt("submit", "cluster.yaml", "--start", "s.py")
        self.assertEqual(self.cluster.json("status")["cluster"]["name"], "it")

    def test_without_start_a_cluster_that_is_down_is_unreachable(self) -> None:
        done = self.cluster.rt("submit", "cluster.yaml", "s.py", check=False)
        self.assertEqual(done.returncode, 4, done.stderr)


if __name__ == "__main__":
    unittest.main()
