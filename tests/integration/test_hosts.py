"""`provider: ssh`: real sshd, from nothing on the hosts to a finished search, and away again."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from typing import Any

from harness import BIN, driver_python, processes_of, wait_until
from ssh_hosts import Hosts, make_key

SEARCH = """
experiment: {name}
command: [python3, -c, "import time; time.sleep({seconds})"]
space: {{x: {{grid: [{grid}]}}}}
resources: {{cpu: 1}}
"""
DRIVER = """
import os, socket
print("ran as", os.environ["RT_JOB_ID"], "on", os.environ.get("RT_TEST_HOST", "nowhere"))
open("note.txt", "w").write("made by the job")
"""


class HostsTest(unittest.TestCase):
    count = 2

    @classmethod
    def setUpClass(cls) -> None:
        cls.hosts = Hosts(cls.count)
        cls.addClassCleanup(cls.hosts.close)

    def setUp(self) -> None:
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="rt-it-"))
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        self.work = self.home / "work"
        self.work.mkdir()
        self.env = {key: value for key, value in os.environ.items() if not key.startswith("RT_")}
        self.env |= {"RT_HOME": str(self.home / "home"), "RT_RESULTS": str(self.home / "results"),
                     "NO_COLOR": "1"}
        self.yaml = self.work / "cluster.yaml"
        self.write()
        self.addCleanup(self.check_nothing_is_left)

    def write(self, more: str = "") -> None:
        self.yaml.write_text("cluster_name: hosts\n" + self.hosts.inventory() + more)

    def check_nothing_is_left(self) -> None:
        done = self.rt("down", str(self.yaml), "--no-download", check=False)
        self.assertEqual(done.returncode, 0, done.stderr + self.logs())
        for host in self.hosts.all:
            self.assertEqual(host.rt_files(), ["cache"] if host.rt_files() else [])
            left = {pid: text[:200] for pid, text in processes_of(host.root).items()
                    if pathlib.Path(text.split("\0")[0]).name.startswith("rt-")}
            self.assertEqual(left, {})

    def logs(self) -> str:
        out = []
        for host in self.hosts.all:
            for path in sorted(host.home.glob(".rt-node/clusters/*/*/*/log")):
                out.append(f"--- {path}\n" + path.read_text(errors="replace")[-2000:])
        return "\n".join(out)

    def rt(self, *args: str, check: bool = True,
           timeout: float = 180) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([str(BIN / "rt"), *args], env=self.env, cwd=self.work, text=True,
                              capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL)
        if check and done.returncode != 0:
            raise AssertionError(f"rt {' '.join(args)} -> {done.returncode}\n{done.stdout}\n"
                                 f"{done.stderr}\n{self.logs()}")
        return done

    def json(self, *args: str) -> Any:
        return json.loads(self.rt(*args, "-o", "json").stdout)

    def nodes(self) -> dict[str, Any]:
        return {node["name"]: node for node in self.json("node", "list")["items"]
                if node["state"] != "GONE"}

    def search(self, name: str, trials: int, seconds: float) -> int:
        path = self.work / f"{name}.yaml"
        grid = ", ".join(str(number) for number in range(trials))
        path.write_text(SEARCH.format(name=name, seconds=seconds, grid=grid))
        return int(self.json("submit", "--detach", str(path))["id"])

    def wait_over(self, number: int) -> Any:
        def over() -> Any:
            item = self.json("exp", "show", str(number))
            return item if item["state"] in ("COMPLETED", "STOPPED", "FAILED") else None
        return wait_until(f"experiment {number} is over", over, 120, lasting=True)

    def test_from_nothing_to_a_finished_search_and_away_again(self) -> None:
        begun = time.monotonic()
        up = self.rt("up", str(self.yaml))
        print(f"up from nothing: {time.monotonic() - begun:.2f} s", file=sys.stderr)
        self.assertIn("2 workers are READY", up.stderr)
        self.assertIn("host key is pinned", up.stderr)
        self.assertEqual({node["state"] for node in self.nodes().values()}, {"READY"})
        done = self.wait_over(self.search("grid", 4, 0.2))
        self.assertEqual(done["trials_by_state"]["COMPLETED"], 4)
        # What is there stays as it is.
        before = {name: node["pid"] for name, node in self.nodes().items()}
        begun = time.monotonic()
        again = self.rt("up", str(self.yaml))
        print(f"up that changes nothing: {time.monotonic() - begun:.2f} s", file=sys.stderr)
        self.assertNotIn("pinned", again.stderr)
        self.assertEqual({name: node["pid"] for name, node in self.nodes().items()}, before)
        # Of file_mounts only what changed travels; setup_commands see them.
        files = self.work / "my_files"
        (files / "sub").mkdir(parents=True)
        (files / "a").write_text("first")
        (files / "sub/b").write_text("second")
        self.write("file_mounts: {'~/files': my_files/, '~/one.txt': my_files/a}\n")
        self.rt("up", str(self.yaml))
        there = self.hosts.all[1].home / "files"
        self.assertEqual((there / "sub/b").read_text(), "second")
        self.assertEqual((self.hosts.all[0].home / "one.txt").read_text(), "first")
        stamp = (there / "sub/b").stat().st_ctime_ns
        (files / "a").write_text("third")
        self.rt("up", str(self.yaml))
        self.assertEqual((there / "a").read_text(), "third")
        self.assertEqual((there / "sub/b").stat().st_ctime_ns, stamp)
        self.assertEqual({name: node["pid"] for name, node in self.nodes().items()}, before)
        # A driver runs there under the Python of the login shell.
        (self.work / "driver.py").write_text(DRIVER)
        job = self.rt("submit", "driver.py")
        self.assertIn("ran as 1 on h", job.stdout)
        begun = time.monotonic()
        self.rt("down", str(self.yaml))
        print(f"down: {time.monotonic() - begun:.2f} s", file=sys.stderr)
        self.assertEqual(len(list((self.home / "results").glob("grid*"))), 1)
        self.assertFalse((self.home / "home/clusters/hosts").exists())
        for host in self.hosts.all:
            self.assertEqual(host.rt_files(), ["cache"])
        self.rt("up", str(self.yaml))
        self.rt("down", "hosts", "--purge", "--no-download")
        for host in self.hosts.all:
            self.assertFalse((host.home / ".rt-node").exists())
        # Where nothing is, nothing is sent only to find that out.
        self.rt("down", str(self.yaml))
        for host in self.hosts.all:
            self.assertFalse((host.home / ".rt-node").exists())

    def test_a_script_runs_on_a_cluster_that_is_started_for_it(self) -> None:
        (self.work / "driver.py").write_text(DRIVER)
        done = self.rt("submit", str(self.yaml), "--start", "--stop", "driver.py")
        self.assertIn("ran as 1 on h", done.stdout)
        for host in self.hosts.all:
            self.assertEqual(host.rt_files(), ["cache"])
        self.assertEqual(list((self.home / "home/clusters").glob("*")), [])

    def test_setup_commands_run_once_and_a_host_that_fails_them_takes_no_work(self) -> None:
        self.write("setup_commands: ['echo once >> ~/setup-ran']\n"
                   "worker_setup_commands: ['echo preparing; test $RT_TEST_HOST != h2']\n"
                   "min_workers: 1\n")
        up = self.rt("up", str(self.yaml))
        self.assertIn("host h2 is quarantined: setup command 'echo preparing; test $RT_TEST_HOST "
                      "!= h2' ended with exit code 1", up.stderr)
        self.assertEqual(self.nodes()["h2"]["state"], "SUSPECT")
        why = self.rt("node", "why", "h2").stdout
        self.assertIn("$ echo preparing", why)
        done = self.wait_over(self.search("rest", 2, 0.1))
        self.assertEqual(done["trials_by_state"]["COMPLETED"], 2)
        trials = self.json("trial", "list", "--exp", "last")["items"]
        self.assertEqual({node for trial in trials for node in trial["node_ids"]} -
                         {self.nodes()["h1"]["id"]}, set())
        # Mended: what succeeded does not run again.
        ran = self.hosts.all[0].home / "setup-ran"
        self.assertEqual(ran.read_text(), "once\n")
        self.write("setup_commands: ['echo once >> ~/setup-ran']\nmin_workers: 1\n"
                   "worker_setup_commands: ['true']\n")
        self.rt("up", str(self.yaml))
        wait_until("h2 takes work", lambda: self.nodes()["h2"]["state"] == "READY", 30)
        self.assertEqual(ran.read_text(), "once\n")
        for host in self.hosts.all:
            (host.home / "setup-ran").unlink()

    def test_a_changed_file_changes_what_differs_and_a_killed_client_leaves_nothing(self) -> None:
        first, second = (host.home / ".rt-node/clusters/hosts" for host in self.hosts.all)
        for what in (self.home / "home/clusters/hosts/hosts.json", first / "h1/head/journal.db",
                     second / "h2/worker/arguments"):
            client = subprocess.Popen([str(BIN / "rt"), "up", str(self.yaml)], env=self.env,
                                      cwd=self.work, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wait_until(f"{what} is there", what.exists, 60)
            client.kill()
            client.wait()
            self.rt("down", str(self.yaml), "--no-download")
            for host in self.hosts.all:
                self.assertLessEqual(set(host.rt_files()), {"cache"})
        self.rt("up", str(self.yaml))
        before = {name: node["pid"] for name, node in self.nodes().items()}
        # Another client, which knows nothing of the cluster, joins it.
        self.env["RT_HOME"] = str(self.home / "other")
        self.yaml.write_text(self.yaml.read_text().replace("cpu: 1}}\n", "cpu: 3}}\n", 1))
        self.rt("up", str(self.yaml))
        nodes = self.nodes()
        self.assertEqual(nodes["h1"]["resources_total"]["cpu"], 3)
        self.assertNotEqual(nodes["h1"]["pid"], before["h1"])
        self.assertEqual(nodes["h2"]["pid"], before["h2"])
        # A dead head, and a host that the file no longer names.
        os.kill(int((first / "h1/head/pid").read_text().split()[0]), 9)
        lines = self.yaml.read_text().splitlines()
        self.yaml.write_text("\n".join(line for line in lines if "name: h2" not in line) + "\n")
        self.rt("up", str(self.yaml))
        self.assertEqual(set(self.nodes()), {"h1"})
        self.assertEqual(self.nodes()["h1"]["pid"], nodes["h1"]["pid"])
        self.assertEqual(self.hosts.all[1].rt_files(), ["cache"])
        self.write()

    def test_a_host_that_dies_in_the_middle(self) -> None:
        self.rt("up", str(self.yaml))
        number = self.search("long", 4, 3)

        def is_busy() -> bool:
            return bool(self.nodes()["h2"]["attempts"])
        wait_until("a trial runs on h2", is_busy, 60)
        dead = self.hosts.all[1]
        dead.kill()
        self.assertEqual(self.wait_over(number)["trials_by_state"]["COMPLETED"], 4)
        self.assertEqual(self.nodes()["h2"]["state"], "LOST")
        refused = self.rt("down", str(self.yaml), "--no-download", check=False)
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertIn("not everything could be removed: host h2", refused.stderr)
        self.assertEqual(self.hosts.all[0].rt_files(), ["cache"])
        dead.start()  # And `down` can finish.

    def test_a_key_that_is_not_accepted_and_a_host_key_that_changed(self) -> None:
        other = self.home / "other"
        make_key(other)
        good = self.yaml.read_text()
        self.yaml.write_text(good.replace(str(self.hosts.key), str(other)))
        refused = self.rt("up", str(self.yaml), check=False)
        self.assertEqual(refused.returncode, 4, refused.stderr)
        self.assertIn("host h1: ssh: ", refused.stderr)
        self.assertIn("Permission denied", refused.stderr)
        self.assertFalse((self.home / "home/clusters/hosts").exists())
        known = self.home / "home/known_hosts"
        lines = known.read_text().splitlines()
        kind, key = lines[0].split()[1], (self.hosts.root / "client_key.pub").read_text().split()[1]
        known.write_text("\n".join(f"{line.split()[0]} {kind} {key}" for line in lines) + "\n")
        self.yaml.write_text(good)
        changed = self.rt("up", str(self.yaml), check=False)
        self.assertEqual(changed.returncode, 4, changed.stderr)
        self.assertIn("the host key is not the one that was pinned", changed.stderr)
        known.unlink()


if __name__ == "__main__":
    unittest.main()
