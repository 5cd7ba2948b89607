"""A head that no longer accepts ends, to be started again; and how many files daemons may open."""

import os
import pathlib
import resource
import signal
import time
import unittest

from http2 import Connection, tls_context
from site_under_attack import BIN, STATUS, Site, wait_until


class ProbeTest(unittest.TestCase):
    def setUp(self) -> None:
        self.site = Site()
        self.addCleanup(self.site.close)

    def head(self, probe_ms: int, failpoints: str = "") -> int:
        env = dict(self.site.env)
        self.site.env |= {"RT_PROBE_MS": str(probe_ms), "RT_FAILPOINTS": failpoints}
        self.state = self.site.head()
        self.site.env = env
        return self.site.daemons["head"].pid

    def call(self) -> int:
        admin = self.state / "admin"
        context = tls_context(admin, admin / "ca.pem")
        with Connection(self.site.address(), context) as connection:
            return connection.call(STATUS)

    def test_a_port_that_accepts_nobody_ends_the_head_and_the_next_one_serves(self) -> None:
        # The listener stands still before its 4th connection: some probes have been answered.
        self.head(1_000, "head.port.before_accept=stop:600000@4")
        dead = self.site.daemons.pop("head")
        self.assertEqual(dead.wait(60), 1)
        self.assertIn("the port of this head is dead", self.site.log("head"))
        left = (self.state / "pid").read_text()  # As of a head that has died.
        self.head(1_000)
        wait_until("the next head serves", lambda: (self.state / "pid").read_text() != left)
        self.assertEqual(self.call(), 0)

    def test_a_head_that_was_stopped_for_a_while_continues(self) -> None:
        pid = self.head(probe_ms=500)
        self.assertEqual(self.call(), 0)
        for _ in range(4):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(1.7)  # Longer than a probe may take: the length is what is tested.
            os.kill(pid, signal.SIGCONT)
            self.assertEqual(self.call(), 0)
        self.assertIsNone(self.site.daemons["head"].poll())


class OpenFilesTest(unittest.TestCase):
    def test_a_daemon_raises_its_limit_and_a_trial_gets_the_old_one(self) -> None:
        site = Site()
        self.addCleanup(site.close)
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        few = 900
        self.assertGreater(hard, few)
        state = site.head()
        site.rt("context", "add", "lab", "--from", str(state / "admin"))
        token = site.root / "w1.token"
        token.touch(0o600)
        token.write_text(site.token("worker"))
        site.start("w1", "/bin/sh", "-c", f'ulimit -S -n {few} && exec "$@"', "sh",
                   str(BIN / "rt-worker"), "--head", site.address(), "--state-dir",
                   str(site.root / "w1"), "--name", "w1", "--token-file", str(token))
        wait_until("the worker is ready", lambda: site.nodes() == {"w1": "READY"})
        limits = pathlib.Path(f"/proc/{site.daemons['w1'].pid}/limits").read_text()
        raised = next(line for line in limits.splitlines() if line.startswith("Max open files"))
        self.assertEqual(raised.split()[3], raised.split()[4])
        (site.root / "e.yaml").write_text(
            "experiment: e\ncommand: [/bin/sh, -c, 'echo files=$(ulimit -S -n) "
            "env=$RT_FOUND_OPEN_FILES.']\nresources: {cpu: 0}\n")
        site.rt("submit", "e.yaml")
        self.assertIn(f"files={few} env=.", site.rt("logs", "1/0").stdout)


if __name__ == "__main__":
    unittest.main()
