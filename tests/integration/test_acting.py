"""What the verbs that act print: one JSON object, ids only, or a line for people (docs/json.md)."""

import json
import sys
import unittest
from typing import Any

from harness import ClusterTest, wait_until

SLEEPS = f"""
experiment: {{name}}
command: [{sys.executable}, -c, "import time; time.sleep(600)"]
num_samples: 2
resources: {{{{cpu: 0}}}}
"""


class ActingTest(ClusterTest):
    workers = 1

    def act(self, *args: str) -> Any:
        """The items of an acting verb's object."""
        done = self.cluster.rt(*args, "-o", "json")
        self.assertEqual(done.stderr, "")
        reply = json.loads(done.stdout)
        self.assertEqual(set(reply), {"schema", "action", "items"})
        self.assertEqual((reply["schema"], reply["action"]), (1, args[1]))
        for item in reply["items"]:
            self.assertEqual(set(item), {"id", "kind", "state"})
        return reply["items"]

    def sleeps(self, name: str) -> int:
        return self.cluster.submit(name, SLEEPS.format(name=name))

    def test_pause_resume_extend_and_stop_of_an_experiment(self) -> None:
        number = self.sleeps("held")
        paused = self.act("exp", "pause", "held")[0]
        self.assertEqual((paused["id"], paused["kind"]), (number, "experiment"))
        wait_until("it is paused", lambda: self.cluster.experiment(number)["state"] == "PAUSED")
        self.assertEqual([item["id"] for item in self.act("exp", "resume", str(number))], [number])
        extended = self.act("exp", "extend", str(number), "--samples", "2")
        self.assertEqual(extended[0]["kind"], "experiment")
        self.assertEqual(len(self.cluster.trials(number)), 4)
        stopped = self.act("exp", "stop", str(number))
        self.assertIn(stopped[0]["state"], ("STOPPING", "STOPPED"))
        self.cluster.wait_experiment(number)

    def test_stop_and_retry_of_trials(self) -> None:
        number = self.sleeps("trials")
        stopped = self.act("trial", "stop", f"{number}/0-1")
        self.assertEqual([(item["id"], item["kind"]) for item in stopped],
                         [(f"{number}/{i}", "trial") for i in range(2)])
        self.assertLessEqual({item["state"] for item in stopped}, {"STOPPING", "STOPPED"})
        self.cluster.wait_experiment(number)
        retried = self.act("trial", "retry", f"{number}/1")
        self.assertEqual(retried[0]["id"], f"{number}/1")
        self.assertIn(retried[0]["state"], ("PENDING", "STARTING", "RUNNING"))
        quiet = self.cluster.rt("trial", "stop", f"{number}/1", "-o", "quiet")
        self.assertEqual((quiet.stdout, quiet.stderr), (f"{number}/1\n", ""))

    def test_a_retry_in_a_stopped_search_opens_nothing_else(self) -> None:
        flag = self.cluster.work / "flag"
        (self.cluster.work / "wait.yaml").write_text(
            f"experiment: wait\ncommand: [sh, -c, 'test -e {flag} || sleep 600']\n"
            "num_samples: 50\nmax_concurrent: 2\n")
        number = json.loads(self.cluster.rt("submit", "wait.yaml", "--detach", "-o",
                                            "json").stdout)["id"]
        self.cluster.rt("exp", "stop", str(number))
        self.assertEqual(self.cluster.wait_experiment(number)["state"], "STOPPED")
        flag.touch()
        self.act("trial", "retry", f"{number}/1")

        def state() -> Any:
            return self.cluster.json("trial", "show", f"{number}/1")["state"]
        wait_until("the trial is over", lambda: state() == "COMPLETED")
        again = self.cluster.wait_experiment(number)
        self.assertEqual((again["state"], again["trials_by_state"]["STOPPED"],
                          again["trials_by_state"]["COMPLETED"]), ("STOPPED", 1, 1))

    def test_stopping_what_is_over_says_so_and_is_no_error(self) -> None:
        number = self.sleeps("over")
        self.cluster.rt("exp", "stop", str(number))
        self.cluster.wait_experiment(number)
        for noun, selector in (("exp", str(number)), ("trial", f"{number}/0")):
            said = self.cluster.rt(noun, "stop", selector).stderr
            self.assertRegex(said, r"is already over: STOPPED\n$")
            self.assertEqual(self.act(noun, "stop", selector)[0]["state"], "STOPPED")
        self.cluster.rt("submit", "/bin/true")
        self.assertIn("is already over: SUCCEEDED",
                      self.cluster.rt("job", "stop", "last").stderr)

    def test_jobs_and_what_submit_prints(self) -> None:
        job = json.loads(self.cluster.rt("submit", "--detach", "-o", "json", "sleep", "--",
                                         "600").stdout)
        shown = self.cluster.json("job", "show", str(job["id"]))
        self.assertEqual(set(job), set(shown))
        self.assertEqual(job["argv"][1:], ["600"])
        self.assertEqual(self.act("job", "stop", str(job["id"]))[0]["kind"], "job")
        wait_until("it is over", lambda: self.cluster.json(
            "job", "show", str(job["id"]))["state"] == "STOPPED")
        (self.cluster.work / "e.yaml").write_text(SLEEPS.format(name="e"))
        search = json.loads(self.cluster.rt("submit", "--detach", "-o", "json", "e.yaml").stdout)
        self.assertEqual(set(search), set(self.cluster.experiment(search["id"])))
        self.assertEqual(search["name"], "e")

    def test_nodes(self) -> None:
        drained = self.act("node", "drain", "worker-1")
        self.assertEqual((drained[0]["kind"], drained[0]["state"]), ("node", "DRAINING"))
        self.assertEqual(self.act("node", "undrain", "worker-1")[0]["state"], "READY")

    def test_tokens(self) -> None:
        token = self.cluster.json("token", "create", "--role", "viewer", "--ttl", "5m")
        self.assertEqual(set(token), {"id", "role", "name", "expires_at", "text"})
        self.assertEqual(token["role"], "viewer")
        self.assertRegex(token["expires_at"], r"^\d{4}-.*Z$")
        plain = self.cluster.rt("token", "create").stdout
        self.assertGreater(len(plain), 100)  # The text itself, for a file.
        self.assertEqual(self.act("token", "revoke", token["id"]),
                         [{"id": token["id"], "kind": "token", "state": "REVOKED"}])

    def test_up_and_context(self) -> None:
        up = self.cluster.json("up", str(self.cluster.yaml))
        self.assertEqual(up, {"cluster": {"name": "it", "state": "UP"}, "ended": []})
        quiet = self.cluster.rt("up", str(self.cluster.yaml), "-o", "quiet")
        self.assertEqual((quiet.stdout, quiet.stderr), ("it\n", ""))
        used = self.cluster.json("context", "use", "it")
        self.assertEqual(used, self.cluster.json("context", "list")["items"][0])
        self.assertEqual((used["name"], used["current"]), ("it", True))
        admin = self.cluster.home / "home/clusters/it/head/admin"
        self.cluster.rt("context", "add", "other", "--from", str(admin))
        self.assertEqual(self.act("context", "remove", "other"),
                         [{"id": "other", "kind": "context", "state": "REMOVED"}])
        names = [each["name"] for each in self.cluster.json("context", "list")["items"]]
        self.assertEqual(names, ["it"])
        self.assertEqual(self.cluster.rt("context", "remove", "it", check=False).returncode, 2)
        self.assertEqual(self.cluster.rt("context", "remove", "no", check=False).returncode, 3)

    def test_a_place_that_cannot_be_made_is_a_failure(self) -> None:
        number = self.cluster.submit("done", "experiment: done\ncommand: ['true']\n")
        self.cluster.wait_experiment(number)
        done = self.cluster.rt("exp", "download", str(number), "/proc/x", check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("cannot make directory", done.stderr)


if __name__ == "__main__":
    unittest.main()
