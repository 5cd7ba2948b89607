"""The preflight of a gang, and a probe that ends a quarantine: real daemons, the tests' own driver
(tests/gpu) and an rt-probe that says what a file says."""

import json
import sys
import unittest

from harness import BIN, Cluster, wait_until

# FAKE_PROBE: a JSON map of gpus to their faults. Beside it, across.json is a list: the parts about
# the nodes of a gang of the next reports, and bus.json what the gpus of a node reduce together.
PROBE = """#!{python}
import json, os, pathlib, sys
known = pathlib.Path(os.environ["FAKE_PROBE"])
faults = json.loads(known.read_text())
seen = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(faults)).split(",")
report = {{"schema": 1, "fault": None, "all_reduce": None, "devices": [
    {{"uuid": uuid, "index": i, "name": "H100", "tested_bytes": 1 << 30, "copy_gbps": 3000,
      "matmul_tflops": 600, "to_device_gbps": 50, "to_host_gbps": 50, "fault": faults.get(uuid)}}
    for i, uuid in enumerate(seen)]}}
# What node 0 of a gang over nodes says of all of them.
across = known.with_name("across.json")
if "--across-nodes" in sys.argv and os.environ["GROUP_RANK"] == "0" and across.exists():
    report["across_nodes"], *more = json.loads(across.read_text())
    across.write_text(json.dumps(more)) if more else across.unlink()
    if "fault" in report["across_nodes"]:
        report["across_nodes"]["fault"] += " of " + os.environ["GROUP_WORLD_SIZE"]
if (bus := known.with_name("bus.json")).exists():
    report["all_reduce"] = json.loads(bus.read_text())
text = json.dumps(report)
if "--report" in sys.argv:
    pathlib.Path(sys.argv[sys.argv.index("--report") + 1]).write_text(text)
else:
    print(text)
sys.exit(any(faults.get(uuid) for uuid in seen))
"""

PROGRAM = """
import json, os
print("RT_REPORT " + json.dumps({"seen": os.environ["CUDA_VISIBLE_DEVICES"]}), flush=True)
"""


def gpu(name: str) -> str:
    return f"GPU-{name},NVIDIA H100,80000000000,ok,used=500000000"


class Probed(unittest.TestCase):
    workers = 1
    more = ""  # Of the resources of a gang.
    names = "abcd"  # Of the gpus.

    def setUp(self) -> None:
        self.cluster = Cluster(workers=self.workers, cpus=8)
        self.addCleanup(self.cluster.close)
        home = self.cluster.home
        (home / "gpus.txt").write_text("\n".join(gpu(one) for one in self.names) + "\n")
        self.faults = home / "faults.json"
        self.probe = home / "rt-probe"
        self.probe.write_text(PROBE.format(python=sys.executable))
        self.probe.chmod(0o700)
        self.cluster.env.update(FAKE_NVML=str(home / "gpus.txt"), RT_PROBE=str(self.probe),
                                FAKE_PROBE=str(self.faults), LD_LIBRARY_PATH=str(BIN / "fake"))
        self.cluster.env.pop("CUDA_VISIBLE_DEVICES", None)
        self.finds({})
        self.cluster.up()
        (self.cluster.work / "program.py").write_text(PROGRAM)

    def finds(self, faults: dict) -> None:
        """The faults of all gpus that a probe finds from now on."""
        self.faults.write_text(json.dumps({f"GPU-{one}": faults.get(one) for one in self.names}))

    def submit(self, preflight: str) -> int:
        return self.cluster.submit("gang", "experiment: gang\nnum_samples: 1\nmax_failures: 0\n"
                                   f"command: [{sys.executable}, program.py]\n"
                                   f"resources: {{cpu: 0, gpu: 1, ranks: 2{self.more}}}\n"
                                   f"preflight: {preflight}\n")

    def show(self, number: int) -> dict:
        return self.cluster.json("trial", "show", f"{number}/0")

    def gpus(self) -> dict:
        return {one["uuid"]: one for node in self.cluster.json("node", "list")["items"]
                for one in node["gpus"]}


class PreflightTest(Probed):
    def test_a_slow_gpu_is_named_and_quarantined_and_the_gang_runs_on_others(self) -> None:
        slow = "it multiplies at 300 TFLOP/s, where the median is 600"
        self.finds({"b": slow})
        number = self.submit("true")
        self.assertEqual(self.cluster.wait_experiment(number)["state"], "COMPLETED")
        shown = self.show(number)
        self.assertEqual((shown["failures"], shown["preemptions"]), (0, 1), shown)
        first = shown["attempts"][0]
        self.assertEqual(first["outcome"], "LOST")
        self.assertIn(f"gpu GPU-b: preflight: {slow}", first["reason"])
        self.assertEqual(shown["attempts"][1]["outcome"], "SUCCEEDED")
        self.assertNotIn("GPU-b", shown["metrics"]["seen"])
        sick = self.gpus()["GPU-b"]
        self.assertEqual((sick["state"], sick["reason"]), ("QUARANTINED", f"preflight: {slow}"))
        self.assertIn(f"gpu 1 takes no work: preflight: {slow}",
                      self.cluster.rt("node", "why", "worker-1").stdout)
        # A probe that still finds it slow ends nothing; one that finds it well does.
        self.cluster.rt("doctor", "--gpu", check=False)
        self.assertEqual(self.gpus()["GPU-b"]["state"], "QUARANTINED")
        self.finds({})
        said = self.cluster.rt("doctor", "--gpu", check=False).stdout
        self.assertIn("the quarantine of gpu 1 of worker-1", said)
        well = wait_until("it takes work again", lambda: next(
            (one for one in [self.gpus()["GPU-b"]] if one["state"] == "READY"), None))
        self.assertIn("rt-probe: 1.0 GiB of memory are well", well["cleared"]["reason"])
        self.assertIn("gpu 1 takes work again since",
                      self.cluster.rt("node", "why", "worker-1").stdout)

    def test_a_job_has_a_preflight_as_well(self) -> None:
        self.finds({"a": "it is slow"})
        said = self.cluster.rt("submit", "--resources", "gpu=1", "--preflight", "program.py")
        self.assertIn('"seen": "GPU-b"', said.stdout)
        self.assertEqual(self.gpus()["GPU-a"]["reason"], "preflight: it is slow")
        job = self.cluster.json("job", "list")["items"][-1]
        self.assertEqual((job["state"], job["attempt"]), ("SUCCEEDED", 2))
        refused = self.cluster.rt("submit", "--preflight", "program.py", check=False)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("the resources ask for none", refused.stderr)

    def test_doctor_quarantines_a_gpu_that_it_finds_at_fault_and_that_nobody_uses(self) -> None:
        self.finds({"b": "it multiplies at 300 TFLOP/s", "c": "9 words read back wrong"})
        go = self.cluster.home / "go"
        (self.cluster.work / "busy.py").write_text(
            "import pathlib, sys, time\nprint('RT_REPORT {\"a\": 1}', flush=True)\n"
            "while not pathlib.Path(sys.argv[1]).exists():\n    time.sleep(0.01)\n")
        number = self.cluster.submit("busy", f"experiment: busy\nnum_samples: 1\ncommand: "
                                     f"[{sys.executable}, busy.py, '{go}']\n"
                                     "resources: {cpu: 0, gpu: 2}\n")
        wait_until("it runs", lambda: self.show(number)["metrics"])
        said = self.cluster.rt("doctor", "--gpu", check=False)
        self.assertEqual(said.returncode, 1)
        self.assertIn("gpu 1 of worker-1 is not quarantined: work on it may have", said.stdout)
        self.assertIn("gpu 2 of worker-1 is quarantined now", said.stdout)
        sick = wait_until("it takes no work", lambda: next(
            (one for one in [self.gpus()["GPU-c"]] if one["state"] == "QUARANTINED"), None))
        self.assertEqual(sick["reason"], "rt doctor --gpu: 9 words read back wrong")
        self.assertEqual(self.gpus()["GPU-b"]["state"], "READY")
        go.touch()
        self.assertEqual(self.cluster.wait_experiment(number)["state"], "COMPLETED")
        # Another one says nothing of what is quarantined, and quarantines what is free now.
        said = self.cluster.rt("doctor", "--gpu", check=False).stdout
        self.assertIn("gpu 1 of worker-1 is quarantined now", said)
        self.assertNotIn("gpu 2 of worker-1", said)
        wait_until("both take no work", lambda: [
            self.gpus()[f"GPU-{one}"]["state"] for one in "abcd"
        ] == ["READY", "QUARANTINED", "QUARANTINED", "READY"])
        self.finds({})
        self.cluster.rt("doctor", "--gpu", check=False)
        wait_until("all take work again", lambda: {one["state"] for one in self.gpus().values()}
                   == {"READY"})

    def test_a_preflight_that_cannot_run_says_what_is_missing(self) -> None:
        number = self.submit("{min_bus_gbps: 200}")  # The probe measures none.
        self.assertEqual(self.cluster.wait_experiment(number)["state"], "FAILED")
        self.assertIn("did not measure the bandwidth", self.show(number)["attempts"][0]["reason"])
        self.probe.write_text("#!/bin/sh\necho no license for this gpu\nexit 3\n")
        number = self.submit("true")
        self.assertEqual(self.cluster.wait_experiment(number)["state"], "FAILED")
        shown = self.show(number)
        self.assertEqual([one["outcome"] for one in shown["attempts"]],
                         ["LOST", "LOST", "LOST", "LAUNCH_FAILED"])
        self.assertEqual((shown["failures"], shown["preemptions"]), (1, 3))
        said = "preflight: rt-probe wrote no report: exit code 3: no license for this gpu"
        self.assertIn(f"{said}; on worker-1", shown["attempts"][0]["reason"])
        self.assertIn(f"{said}; 3 preflights before it failed; on worker-1",
                      shown["attempts"][3]["reason"])
        self.probe.unlink()
        number = self.submit("true")
        self.assertEqual(self.cluster.wait_experiment(number)["state"], "FAILED")
        self.assertIn("rt-probe is not installed here", self.show(number)["attempts"][0]["reason"])
        self.assertEqual({one["state"] for one in self.gpus().values()}, {"READY"})


    def test_a_bandwidth_that_the_machine_does_not_have_is_no_fault_of_its_gpus(self) -> None:
        said = "all-reduce at 30 GB/s of bus bandwidth, 200 are asked for"
        self.faults.with_name("bus.json").write_text(json.dumps(
            {"ranks": 2, "bus_gbps": 30, "errors": 0, "fault": said}))
        number = self.submit("{min_bus_gbps: 200}")
        self.assertEqual(self.cluster.wait_experiment(number)["state"], "FAILED")
        shown = self.show(number)
        self.assertEqual([one["outcome"] for one in shown["attempts"]],
                         ["LOST", "LOST", "LOST", "LAUNCH_FAILED"])
        self.assertIn(f"preflight: {said}, between GPU-", shown["attempts"][0]["reason"])
        self.assertIn("none of them is slower than the others", shown["attempts"][0]["reason"])
        self.assertEqual({one["state"] for one in self.gpus().values()}, {"READY"})
        # The probe has found the one that is to blame.
        self.finds({"a": "its all-reduce with gpu 1 is at 30 GB/s"})
        number = self.submit("{min_bus_gbps: 200}")
        wait_until("it takes no work", lambda: self.gpus()["GPU-a"]["state"] == "QUARANTINED")
        self.assertEqual(self.cluster.wait_experiment(number)["state"], "FAILED")
        self.assertEqual([one["uuid"] for one in self.gpus().values() if one["state"] != "READY"],
                         ["GPU-a"])


class Across(Probed):
    """A gang with a rank on each of two nodes, of two gpus each."""

    workers = 2
    more = ", strategy: STRICT_SPREAD"

    def across(self, fault: str, *states: int, **more: list) -> None:
        self.faults.with_name("across.json").write_text(
            json.dumps([{"fault": fault, "nodes": states, **more}]))


class NodesTest(Across):

    def test_a_fault_on_another_node_is_the_machines_and_a_missing_node_is_named(self) -> None:
        both = [node["gpus"] for node in self.cluster.json("node", "list")["items"]]
        self.assertEqual([len(gpus) for gpus in both], [2, 2])
        sick = both[1][0]["uuid"]
        self.finds({sick.removeprefix("GPU-"): "it is slow"})
        self.across("node 1 has a gpu at fault", 0, 1)
        number = self.submit("true")
        self.assertEqual(self.cluster.wait_experiment(number)["state"], "COMPLETED")
        shown = self.show(number)
        self.assertEqual((shown["failures"], shown["preemptions"]), (0, 1), shown)
        self.assertEqual(shown["attempts"][0]["outcome"], "LOST")
        self.assertEqual({uuid: one["state"] for uuid, one in self.gpus().items()
                          if one["state"] != "READY"}, {sick: "QUARANTINED"})
        self.across("node 1 did not come", 0, 3)
        number = self.submit("true")
        self.assertEqual(self.cluster.wait_experiment(number)["state"], "COMPLETED")
        shown = self.show(number)
        self.assertEqual((shown["failures"], shown["preemptions"]), (0, 1), shown)
        self.assertRegex(shown["attempts"][0]["reason"],
                         "preflight: node 1 did not come of 2; from 0 on these are the nodes 1, 2; "
                         r"on worker-\d, worker-\d")
        self.assertEqual(sum(one["state"] == "READY" for one in self.gpus().values()), 3)


class UntestedTest(Across):
    workers = 3
    names = "abcdef"

    def test_a_gang_that_a_node_cannot_test_runs_on_other_nodes(self) -> None:
        self.across("the all-reduce across nodes did not end within 9 s", 0, 0)
        number = self.submit("{min_bus_gbps: 100}")
        self.assertEqual(self.cluster.wait_experiment(number)["state"], "COMPLETED")
        shown = self.show(number)
        first, second = shown["attempts"]
        self.assertEqual((first["outcome"], shown["failures"], shown["preemptions"]),
                         ("LOST", 0, 1))
        self.assertIn("the all-reduce across nodes did not end within 9 s", first["reason"])
        (excluded,) = shown["excluded_nodes"]
        self.assertIn(excluded, [member["node_id"] for member in first["members"]])
        self.assertNotIn(excluded, [member["node_id"] for member in second["members"]])
        self.assertEqual({gpu["state"] for gpu in self.gpus().values()}, {"READY"})


class LinksTest(Across):
    workers = 3
    names = "abcdef"

    def nodes_of(self, attempt: dict) -> list:
        return [member["node_id"] for member in attempt["members"]]

    def test_a_slow_link_is_named_and_the_gang_runs_on_other_nodes(self) -> None:
        self.across("all-reduce at 3.5 GB/s", 0, 0,
                    slow_links=[{"node": 0, "other": 1, "bus_gbps": 3.5}])
        number = self.submit("{min_bus_gbps: 100}")
        self.assertEqual(self.cluster.wait_experiment(number)["state"], "COMPLETED")
        shown = self.show(number)
        self.assertEqual((shown["failures"], shown["preemptions"]), (0, 1), shown)
        first, second = shown["attempts"]
        self.assertEqual(first["outcome"], "LOST")
        self.assertIn("preflight: all-reduce at 3.5 GB/s", first["reason"])
        slow = self.nodes_of(first)
        self.assertEqual(len(set(slow)), 2)
        self.assertNotEqual(set(self.nodes_of(second)), set(slow))
        # The link is known on both of its nodes, and no gpu is to blame.
        nodes = {node["id"]: node for node in self.cluster.json("node", "list")["items"]}
        for one, other in (slow, reversed(slow)):
            (link,) = nodes[one]["slow_links"]
            self.assertEqual((link["node_id"], link["node"]), (other, nodes[other]["name"]))
            self.assertEqual((link["bus_gbps"], link["asked_gbps"]), (3.5, 100))
        self.assertEqual({gpu["state"] for gpu in self.gpus().values()}, {"READY"})
        names = sorted(nodes[one]["name"] for one in slow)
        self.assertIn(f"its link to {names[1]} carries 3.5 GB/s",
                      self.cluster.rt("node", "why", names[0]).stdout)
        # With the third node gone a gang that asks for as much waits, and one that asks for less
        # does not.
        (third,) = set(nodes) - set(slow)
        self.cluster.rt("node", "drain", nodes[third]["name"])
        waiting = self.submit("{min_bus_gbps: 50}")
        why = wait_until("it waits", lambda: (self.show(waiting)["waiting"] or {}).get("reason"))
        self.assertIn(f"the slow links between {names[0]} and {names[1]} (3.5 GB/s)", why)
        self.across_is(3.6)
        self.assertEqual(self.cluster.wait_experiment(self.submit("{min_bus_gbps: 3}"))["state"],
                         "COMPLETED")
        # A person says that it is repaired.
        self.across_is(120)
        said = self.cluster.rt("node", "undrain", names[0], "--links").stderr
        self.assertIn("may use its slow links again", said)
        self.assertEqual(self.cluster.wait_experiment(waiting)["state"], "COMPLETED")
        again = self.cluster.rt("node", "undrain", names[0], "--links", check=False)
        self.assertEqual(again.returncode, 1)
        self.assertIn(f"no link of node {names[0]} is known to be slow", again.stderr)

    def test_a_measurement_ends_a_slow_link(self) -> None:
        self.across("all-reduce at 3.5 GB/s", 0, 0,
                    slow_links=[{"node": 0, "other": 1, "bus_gbps": 3.5}])
        number = self.submit("{min_bus_gbps: 100}")
        self.assertEqual(self.cluster.wait_experiment(number)["state"], "COMPLETED")
        slow = self.nodes_of(self.show(number)["attempts"][0])
        (link,) = self.links_of(slow[0])
        self.assertEqual((link["bus_gbps"], link["asked_gbps"], link["tries"]), (3.5, 100, 0))
        (third,) = {node["id"] for node in self.cluster.json("node", "list")["items"]} - set(slow)
        self.cluster.rt("node", "drain", str(third))
        waiting = self.submit("{min_bus_gbps: 50}")
        why = wait_until("it waits", lambda: (self.show(waiting)["waiting"] or {}).get("reason"))
        self.assertRegex(why, r"the link between .* is measured anew from 20.* on")
        # More than was known, but less than was asked for: enough for the one that waits, whose own
        # measurement is enough for all.
        self.across_is(60, 120)
        self.assertEqual(self.cluster.wait_experiment(self.submit("{min_bus_gbps: 3}"))["state"],
                         "COMPLETED")
        self.assertEqual(self.cluster.wait_experiment(waiting)["state"], "COMPLETED")
        self.assertEqual(self.links_of(slow[0]), [])

    def links_of(self, node: int) -> list:
        (one,) = [one for one in self.cluster.json("node", "list")["items"] if one["id"] == node]
        return one["slow_links"]

    def across_is(self, *gbps: float) -> None:
        """What the next probes of node 0 measure across nodes, without a fault."""
        self.faults.with_name("across.json").write_text(
            json.dumps([{"bus_gbps": one, "nodes": [0, 0]} for one in gbps]))


if __name__ == "__main__":
    unittest.main()
