"""/metrics: Prometheus' own checker reads it; only people's certificates may."""

import json
import pathlib
import re
import ssl
import subprocess
import unittest
import urllib.error
import urllib.request

from harness import ROOT, wait_until
from test_security import Site


class MetricsTest(unittest.TestCase):
    def setUp(self) -> None:
        self.site = Site()
        self.addCleanup(self.site.close)
        self.state = self.site.head(extra=["--metrics", "127.0.0.1:0"])
        self.site.rt("context", "add", "it", "--from", str(self.state / "admin"))
        self.site.rt("context", "use", "it")
        token = self.site.rt("token", "create", "--role", "worker").stdout.strip()
        self.site.worker("w1", token, "--resources", "cpu=2")
        wait_until("the worker is READY", lambda: "READY" in self.site.rt("node", "list").stdout)

    def context(self, directory: pathlib.Path | None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.state / "admin/ca.pem"))
        if directory is not None:
            context.load_cert_chain(str(directory / "cert.pem"), str(directory / "key.pem"))
        return context

    def fetch(self, directory: pathlib.Path | None, path: str = "/metrics") -> str:
        address = (self.state / "metrics").read_text().strip()
        with urllib.request.urlopen(f"https://{address}{path}", timeout=20,
                                    context=self.context(directory)) as reply:
            self.assertIn("version=0.0.4", reply.headers["Content-Type"])
            return reply.read().decode()

    def sample(self, page: str, series: str) -> float:
        found = re.search(rf"^{re.escape(series)} (\S+)$", page, re.M)
        self.assertIsNotNone(found, page)
        assert found is not None
        return float(found.group(1))

    def test_prometheus_can_read_it(self) -> None:
        path = self.site.root / "e.yaml"
        path.write_text(json.dumps({
            "experiment": 'a "strange"\\name', "num_samples": 3, "metric": "loss", "mode": "min",
            "command": ["/bin/sh", "-c", "echo 'RT_REPORT {\"loss\": 0.5}'; sleep 600"]}))
        self.site.rt("submit", "--detach", str(path))
        admin = self.state / "admin"
        series = 'rt_trials{experiment="1",name="a \\"strange\\"\\\\name",state="RUNNING"}'

        def running() -> str:
            page = self.fetch(admin)
            return page if f"{series} 2" in page and "rt_trial_rows 2" in page else ""
        page = wait_until("two trials run and have reported", running)
        self.assertEqual(self.sample(page, 'rt_nodes{state="READY"}'), 1)
        self.assertEqual(self.sample(page, 'rt_resources_used{resource="cpu"}'), 2)
        self.assertGreater(self.sample(page, "rt_checkpoint_store_used_bytes"), 0)  # The bundle.
        self.assertEqual(self.sample(page, "rt_checkpoint_store_refuses"), 0)
        self.assertEqual(self.sample(page, "rt_waiting"), 1)
        best = series.replace("rt_trials", "rt_experiment_best").replace(
            'state="RUNNING"', 'metric="loss"')
        self.assertEqual(self.sample(page, best), 0.5)
        tool = subprocess.run([str(ROOT / "tests/integration/promtool.sh")], check=True,
                              capture_output=True, text=True).stdout.strip()
        checked = subprocess.run([tool, "check", "metrics"], input=page, text=True,
                                 capture_output=True)
        self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ""))
        self.site.rt("exp", "stop", "last")

    def test_strangers_and_workers_get_nothing(self) -> None:
        worker = self.site.root / "w1/credentials"
        for directory in (None, worker):
            with self.assertRaises((ssl.SSLError, urllib.error.URLError, ConnectionError)):
                self.fetch(directory)
        with self.assertRaises(urllib.error.HTTPError):
            self.fetch(self.state / "admin", "/secrets")


if __name__ == "__main__":
    unittest.main()
