"""`rt up` and `rt down` of a cluster on EC2 are killed at every step that they have. Whatever was
done, the next `rt up` finds one machine or makes one, and `rt down` leaves nothing. moto is the
cloud; no machine is booted, so `rt up` is always killed before it would wait for ssh
(test_cloud.py does the rest)."""

from __future__ import annotations

import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest
import urllib.request
from typing import Any

from cloud_box import VENV, left
from harness import BIN, ROOT, wait_until

ARTICLE = (ROOT / "tests/data/article_cluster.yaml").read_text()
POINTS = re.findall(r'{"(client\.[a-z_.]+)"}', (ROOT / "common/run/failpoint.h").read_text())
BOOTED = "client.up.before_setup"  # The machine is there, and ssh would be next.
# Not reached by one client without a machine: test_cloud.py does, and two clients do.
ELSEWHERE = ["client.up.after_setup", "client.up.before_yield"]
AT_ONCE = 4


class StepsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.api = subprocess.Popen([VENV, ROOT / "tests/contract/ec2.py", "--serve"], text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        cls.addClassCleanup(cls.end_api)
        assert cls.api.stdout is not None
        cls.told = json.loads(cls.api.stdout.readline())

    @classmethod
    def end_api(cls) -> None:
        assert cls.api.stdin is not None and cls.api.stdout is not None
        cls.api.stdin.close()
        cls.api.wait(timeout=30)
        cls.api.stdout.close()

    def setUp(self) -> None:
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="rt-it-"))
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        (self.root / "my_files").mkdir()

    def rt(self, cluster: str, *args: str, home: str = "", point: str = "") -> str:
        """What it said on standard error. Killed at the point, or done."""
        env = {key: value for key, value in os.environ.items() if not key.startswith("RT_")}
        env |= self.told["environment"] | {
            "NO_COLOR": "1", "RT_EC2_LIST_LAG_MS": "500",
            "RT_HOME": str(self.root / (home or "home-" + cluster)),
            "RT_FAILPOINTS": f"{point}=kill" if point else ""}
        if point and ":" in point:  # Stands still somewhere first.
            env["RT_FAILPOINTS"] = f"{point},{BOOTED}=kill"
        done = subprocess.run([BIN / "rt", *args], env=env, cwd=self.root, text=True,
                              capture_output=True, timeout=120, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, -9 if point else 0,
                         f"{cluster}: rt {args} at {point or 'none'}: {done.stdout}{done.stderr}")
        return done.stderr

    def up(self, cluster: str, point: str) -> None:
        self.rt(cluster, "up", self.file(cluster), point=point)

    def down(self, cluster: str, point: str = "", home: str = "") -> str:
        return self.rt(cluster, "down", self.file(cluster), "--no-download", point=point, home=home)

    def file(self, cluster: str) -> str:
        path = self.root / f"{cluster}.yaml"
        path.write_text(ARTICLE.replace("tune-default", cluster))
        return path.name

    def living(self, cluster: str) -> list[Any]:
        with urllib.request.urlopen(self.told["endpoint"] + "/instances") as answer:
            return [one["id"] for one in json.load(answer)
                    if one["there"] and one["cluster"] == cluster]

    def play(self, number: int, up: str, down: str) -> None:
        """An up that is killed, then another one, and a down that is killed, then another one."""
        cluster = f"again-{number}"
        self.up(cluster, up)
        self.assertLessEqual(len(self.living(cluster)), 1, up)
        self.up(cluster, BOOTED)
        self.assertEqual(len(self.living(cluster)), 1, up)
        self.down(cluster, down)
        if number % 2 == 0:
            self.up(cluster, BOOTED)
            self.assertEqual(len(self.living(cluster)), 1, down)
        self.down(cluster)
        self.assertEqual(self.living(cluster), [], down)

    def play_at_once(self, number: int, up: str) -> None:
        """An up that is killed, and a down: by the same client, or by one that knows only tags."""
        cluster = f"once-{number}"
        self.up(cluster, up)
        # What has no tag yet is known to the client alone that asked for it.
        is_tagged = up not in ("client.up.before_key", "client.up.before_role")
        if number % 2 == 1 and is_tagged:
            self.down(cluster, home="other")
        self.down(cluster)
        self.assertEqual(self.living(cluster), [], up)

    def test_a_kill_at_any_step_leaves_one_machine_or_none(self) -> None:
        ups = [one for one in POINTS if ".up." in one and one not in ELSEWHERE]
        downs = [one for one in POINTS if ".down." in one]
        self.assertGreaterEqual(min(len(ups), len(downs)), 6)
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            plays = [pool.submit(self.play, number, ups[number % len(ups)],
                                 downs[number % len(downs)])
                     for number in range(max(len(ups), len(downs)))]
            plays += [pool.submit(self.play_at_once, number, up) for number, up in enumerate(ups)]
            for one in plays:
                one.result()
        self.assertEqual({kind: names for kind, names in
                          left(self.told["environment"]).items() if names}, {})

    def test_a_second_up_waits_for_the_first_and_says_so(self) -> None:
        lock = self.root / "home-two/locks/two"
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            first = pool.submit(self.up, "two", "client.up.before_create=stop:2000")
            wait_until("the first has the lock", lambda: lock.exists() and lock.read_text(), 30)
            pid = lock.read_text().strip()
            said = self.rt("two", "up", "two.yaml", point=BOOTED)
            first.result()
        self.assertIn(f"process {pid} is starting, changing or ending 'two': waiting", said)
        self.assertEqual(len(self.living("two")), 1)
        self.down("two")

    def start(self, home: str, failpoints: str) -> subprocess.Popen[str]:
        env = {key: value for key, value in os.environ.items() if not key.startswith("RT_")}
        env |= self.told["environment"] | {
            "NO_COLOR": "1", "RT_EC2_LIST_LAG_MS": "500", "RT_FAILPOINTS": failpoints,
            "RT_HOME": str(self.root / home)}
        up = subprocess.Popen([BIN / "rt", "up", self.file("both")], env=env, cwd=self.root,
                              text=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE)
        self.addCleanup(up.kill)
        return up

    def test_of_two_clients_the_one_whose_machine_is_younger_ends_it(self) -> None:
        """Neither sees the other's machine before it asks for its own."""
        first = self.start("one", f"client.up.before_create=stop:4000,{BOOTED}=kill")
        second = self.start("two", "client.up.before_create=stop:5500,client.up.before_yield=kill")
        self.assertEqual(first.wait(timeout=120), -9, first.communicate()[1])
        kept = self.living("both")
        self.assertEqual(second.wait(timeout=120), -9, second.communicate()[1])
        self.assertEqual(len(self.living("both")), 2)  # It was killed before it had ended its own.
        again = self.start("two", "")
        said = again.communicate(timeout=120)[1]
        self.assertEqual(again.returncode, 1, said)
        self.assertIn(f"made the head's machine of 'both' first, {kept[0]}", said)
        self.assertIn("was made by another client", said)
        self.assertEqual(self.living("both"), kept[:1])
        self.down("both", home="one")
        self.down("both", home="two")
        self.assertEqual({kind: names for kind, names in
                          left(self.told["environment"]).items() if names}, {})

    def test_keep_is_a_time_and_for_clouds(self) -> None:
        (self.root / "local.yaml").write_text("cluster_name: here\nprovider: {type: local}\n")
        (self.root / "x.sh").write_text("#!/bin/sh\n")
        (self.root / "x.sh").chmod(0o755)
        for words, said in ((("up", self.file("three"), "--keep", "soon"), "not a time between"),
                            (("up", "local.yaml", "--keep", "1h"), "for a cluster in a cloud"),
                            (("submit", self.file("three"), "--start", "--stop",
                              "--if-client-vanishes", "wait", "x.sh"),
                             "must be finish or stop, not wait"),
                            (("submit", self.file("three"), "--start", "--if-client-vanishes",
                              "stop", "x.sh"), "that this command starts and stops")):
            done = subprocess.run([BIN / "rt", *words], cwd=self.root, text=True,
                                  env={**os.environ, "RT_HOME": str(self.root / "home")},
                                  capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main()
