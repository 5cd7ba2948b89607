"""Elastic trials: they grow when the cluster is idle and give way to whoever waits."""

import json
import pathlib
import sys
import unittest
from typing import Any

from harness import wait_until
from rank_script import RankScriptTest
from test_resize import RANK

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACE = ROOT / "tests/data/elastic/workloads/workload-6.csv"

# Runs until a file is there.
PLAIN = """
import pathlib, sys, time

files = pathlib.Path(sys.argv[1])
(files / "plain").touch()
while not (files / "end-plain").exists():
    time.sleep(0.02)
"""


class ElasticRanksTest(RankScriptTest):
    script = RANK
    cpus = 2

    def sizes(self, number: int) -> list[int]:
        return [len(one["members"]) for one in self.show(number)["attempts"]]

    def wait_size(self, number: int, size: int) -> None:
        wait_until(f"trial {number}/0 has {size} ranks",
                   lambda: self.sizes(number)[-1:] == [size])

    def test_grows_on_an_idle_cluster_and_shrinks_for_a_plain_trial(self) -> None:
        number = self.submit_ranks("elastic", "{cpu: 1, ranks: [1, 4]}")
        self.wait_size(number, 4)  # Not before its first rank has saved.
        show = self.show(number)
        self.assertEqual(show["resources"]["ranks_bounds"], [1, 4])
        refused = self.cluster.rt("trial", "resize", f"{number}/0", "--ranks", "5", check=False)
        self.assertIn("it has 1 to 4 ranks, not 5", refused.stderr)
        (self.cluster.work / "plain.py").write_text(PLAIN)
        plain = self.cluster.submit("plain", f"""
experiment: plain
command: [{sys.executable}, plain.py, {self.files}]
resources: {{cpu: 1}}
""")
        # Not after half a minute, but at once.
        wait_until("the plain trial runs", lambda: (self.files / "plain").exists())
        self.assertEqual(self.sizes(number)[:3], [1, 4, 3])
        (self.files / "end-plain").touch()
        self.cluster.wait_experiment(plain)
        trial = self.show(number)
        self.assertEqual((trial["failures"], trial["preemptions"]), (0, 0))
        self.cluster.rt("trial", "stop", f"{number}/0")
        experiment = self.cluster.wait_experiment(number)
        # Every step counts once, whatever the sizes.
        rows = self.cluster.rows(experiment, self.show(number))
        self.assertEqual([row["step"] for row in rows], list(range(1, len(rows) + 1)))

    def test_a_trace_is_replayed_without_a_cluster(self) -> None:
        plan: Any = json.loads(
            self.cluster.rt("plan", "--elastic", str(TRACE), "-o", "json").stdout)
        policies = {one["policy"]: one for one in plan["policies"]}
        self.assertEqual(set(policies), {"costate", "equal"})
        self.assertLess(policies["costate"]["mean_completion_s"],
                        0.8 * policies["equal"]["mean_completion_s"])
        self.assertEqual(len(policies["costate"]["jobs"]), 160)
        refused = self.cluster.rt("plan", "--elastic", str(TRACE), "--nodes", "0", check=False)
        self.assertEqual(refused.returncode, 2)


# What rank 0 says of steps with 1 to 3 ranks, as rt.elastic would once it has trained with them: a
# step takes 0.1 s, and the sum of several ranks nothing where the trial scales, else a second.
PROFILE = """
scales, sent = sys.argv[2] == "scales", 0

def profile():
    global sent
    sent += 1
    def point(ranks):
        sync = 0.0 if ranks == 1 else 0.001 if scales else 1.0
        return {"nodes": 1, "ranks": ranks, "local": 16, "accum": 0, "gpu_type": "", "count": 20,
                "step": [0.1 + sync, 1e-6], "sync": [sync, 1e-6]}
    wire.sendall(json.dumps({"op": "profile", "type": "profile", "seq": sent, "elastic": {
        "max_batch": 48, "local_bounds": [16, 16], "initial_batch": 16, "accumulation": False,
        "progress": float(base), "total": 100000.0, "sqr": 1e-4, "var": 1.0, "noise_weight": 9,
        "points": [point(ranks) for ranks in (1, 2, 3)]}}).encode() + b"\\n")

takes = ask({"op": "hello", "token": os.environ["RT_TOKEN"]}, "hello").get("takes", [])
assert ("profile" in takes) == (rank == 0), (takes, rank)
if rank == 0:
    profile()
step = base
"""

# The worse one of two is slow, so that the better one is first at each rung.
SCORE = """
quality = float(sys.argv[2])
if quality < 1:
    time.sleep(0.06)
"""


class ElasticPolicyTest(RankScriptTest):
    script = RANK.replace("step = base\n", PROFILE)
    cpus = 2
    more_of_cluster = "elastic: {interval_s: 1}\n"

    def submit(self, name: str) -> int:
        return self.cluster.submit(name, f"""
experiment: {name}
command: [{sys.executable}, rank.py, {self.files / name}, {name}]
resources: {{cpu: 1, ranks: [1, 3]}}
""")

    def sizes(self, number: int) -> list[int]:
        return [len(one["members"]) for one in self.show(number)["attempts"]]

    def test_who_scales_gets_more_also_after_a_restart_of_the_head(self) -> None:
        for name in ("scales", "flat"):
            (self.files / name).mkdir()
        numbers = [self.submit(name) for name in ("scales", "flat")]
        def shares() -> list[Any]:
            return [self.show(one)["elastic"] or {} for one in numbers]

        wait_until("the policy knows both, and gives 3 ranks to the one that scales", lambda: [
            one.get("ranks") for one in shares() if one.get("speed_up")] == [3, 1])
        wait_until("they have these sizes",
                   lambda: [self.sizes(one)[-1:] for one in numbers] == [[3], [1]])
        wait_until("the policy says so of both",
                   lambda: {one.get("policy") for one in shares()} == {"costate"})
        self.assertGreater(shares()[0]["speed_up"], 2.5)
        why = self.cluster.rt("trial", "why", f"{numbers[1]}/0").stdout
        self.assertIn("the policy 'costate' gives it 1", why)
        self.assertIn("one more would bring 0 %", why)
        allocation = self.cluster.experiment(numbers[0])["allocation"]
        self.assertEqual(allocation[-1]["ranks"], 3)
        self.assertEqual(allocation[0]["ranks"], 1)
        before = [self.sizes(one) for one in numbers]
        self.cluster.kill("head")
        self.cluster.up()
        wait_until("the policy of the new head has answered", lambda: all(
            (self.show(one)["elastic"] or {}).get("policy") == "costate" for one in numbers))
        self.assertEqual([self.sizes(one) for one in numbers], before)


class ElasticSearchTest(RankScriptTest):
    script = RANK.replace("    time.sleep(0.02)\n", "    time.sleep(0.02)\n" + "\n".join(
        "    " + line for line in SCORE.strip().splitlines()) + "\n").replace(
        '"step": step}', '"step": step, "score": quality}')
    cpus = 2
    more_of_cluster = "elastic: {interval_s: 1}\n"

    def test_what_a_stopped_trial_frees_makes_the_other_one_faster(self) -> None:
        number = self.cluster.submit("search", f"""
experiment: search
command: [{sys.executable}, rank.py, {self.files}, "${{quality}}"]
resources: {{cpu: 1, ranks: [1, 4]}}
space: {{quality: {{grid: [0, 1]}}}}
metric: score
mode: max
scheduler: {{asha: {{max_t: 1000000, grace_period: 20, reduction_factor: 2}}}}
""")
        def trials() -> list[Any]:
            return [self.cluster.json("trial", "show", f"{number}/{one}") for one in (0, 1)]

        def sizes(trial: Any) -> list[int]:
            return [len(one["members"]) for one in trial["attempts"]]

        wait_until("both run", lambda: all(sizes(one) for one in trials()))
        wait_until("the worse one is stopped", lambda: trials()[0]["state"] == "STOPPED")
        wait_until("the better one has all ranks", lambda: sizes(trials()[1])[-1] == 4)
        self.assertLess(max(sizes(trials()[0])), 4)
        ranks = [one["ranks"] for one in self.cluster.experiment(number)["allocation"]]
        self.assertEqual(max(ranks), 4)
        self.cluster.rt("exp", "stop", str(number))
        self.cluster.wait_experiment(number)


if __name__ == "__main__":
    unittest.main()
