"""The checks of on_device.sh: see there."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
from typing import Any, Callable

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))
from harness import BIN, Cluster, wait_until  # noqa: E402

FAKE = "--fake" in sys.argv
OUT = pathlib.Path(sys.argv[-1])
PROGRAMS = HERE / "device_programs.py"
GIB = 1 << 30
ALL_S = 225  # What begins later is left out: the whole is to take less than four minutes.
FAKE_GPU = ("GPU-fake,NVIDIA H100 80GB HBM3,85520809984,ok,util=50,used=600000000,temp=40,"
            "power=120000,sm=1980,gen=5,lanes=16\n")
# Of NVIDIA's data sheets: GB/s of the memory, GB/s of PCIe in one direction.
SHEETS = {"H100 80GB HBM3": (3350, 63), "H200": (4800, 63), "H100 PCIe": (2000, 63),
          "A100-SXM4-80GB": (2039, 31.5), "A100-SXM4-40GB": (1555, 31.5)}


class Checks:
    """Prints a line for each check and remembers whether all passed."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.began = time.monotonic()

    def line(self, name: str, passed: bool | None, figure: str, bar: str) -> None:
        word = "NOTE" if passed is None else "PASS" if passed else "FAIL"
        if passed is False:
            self.failed.append(name)
        text = f"CHECK {name:<24} {word}  {figure}" + (f"  bar {bar}" if bar else "")
        print(text, flush=True)
        with open(OUT / "checks.txt", "a", encoding="utf-8") as file:
            file.write(text + "\n")

    @staticmethod
    def bench(name: str, value: float, unit: str, bar: str) -> None:
        """A figure in the form of tests/bench; of fakes there are none."""
        if not FAKE:
            print(f"BENCH {name} {value:.4g} {unit} bar {bar} peer none", flush=True)

    def run(self, name: str, check: Callable[[], None]) -> None:
        if time.monotonic() - self.began > ALL_S:
            self.line(name, None, f"left out: {ALL_S} s are over", "")
            return
        began = time.monotonic()
        try:
            check()
        except Exception as error:  # pylint: disable=broad-except
            self.line(name, False, f"{type(error).__name__}: {str(error)[:300]!r}", "")
            with open(OUT / "failures.txt", "a", encoding="utf-8") as file:
                file.write(f"--- {name}\n{traceback.format_exc()}\n")
        print(f"      {name} took {time.monotonic() - began:.1f} s", flush=True)


CHECKS = Checks()
DETAILS: dict[str, Any] = {}  # Into one file: what is printed are the figures.


def smi(*fields: str) -> list[float]:
    """What nvidia-smi says of the first gpu; of a fake one, what the file says."""
    if FAKE:
        told = dict(pair.split("=") for pair in FAKE_GPU.strip().split(",")[4:])
        known = {"memory.used": float(told["used"]) / 2**20, "utilization.gpu": float(told["util"]),
                 "temperature.gpu": float(told["temp"]), "power.draw": float(told["power"]) / 1e3,
                 "clocks.sm": float(told["sm"]), "pcie.link.gen.current": float(told["gen"])}
        return [known[field] for field in fields]
    done = subprocess.run(["nvidia-smi", "--query-gpu=" + ",".join(fields), "-i", "0",
                           "--format=csv,noheader,nounits"], capture_output=True, text=True,
                          check=True)
    return [float(one) for one in done.stdout.split(",")]


class Device:
    """A cluster of one worker on this machine, and what the checks do with it."""

    def __init__(self) -> None:
        self.cluster = Cluster(workers=1, cpus=8)
        self.cluster.env["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
        if FAKE:
            self.gpus = self.cluster.home / "gpus.txt"
            self.gpus.write_text(FAKE_GPU)
            cuda = self.cluster.home / "cuda"
            cuda.mkdir()
            self.cluster.env.update(FAKE_NVML=str(self.gpus), FAKE_CUDA=str(cuda),
                                    LD_LIBRARY_PATH=str(BIN / "fake"))
            self.cluster.env.pop("CUDA_VISIBLE_DEVICES", None)
        self.cluster.up()
        shutil.copy(PROGRAMS, self.cluster.work)

    def tool(self, *argv: str, timeout: float = 60) -> dict[str, Any]:
        done = subprocess.run([str(BIN / argv[0]), *argv[1:]], env=self.cluster.env, text=True,
                              capture_output=True, timeout=timeout, check=False)
        if not done.stdout.strip():
            raise AssertionError(f"{argv} -> {done.returncode}: {done.stderr}")
        told = json.loads(done.stdout)
        DETAILS[" ".join(argv)] = told
        return told

    def submit(self, name: str, *argv: str, more: str = "") -> int:
        command = json.dumps([sys.executable, "device_programs.py", *argv])
        return self.cluster.submit(name, f"experiment: {name}\ncommand: {command}\n"
                                         f"num_samples: 1\nresources: {{cpu: 1, gpu: 1}}\n{more}")

    def show(self, number: int) -> dict[str, Any]:
        return self.cluster.json("trial", "show", f"{number}/0")

    def gpu(self) -> dict[str, Any]:
        return self.cluster.node("worker-1")["gpus"][0]

    def wait_metric(self, number: int, key: str, deadline_s: float = 90) -> dict[str, Any]:
        def told() -> dict[str, Any]:
            shown = self.show(number)
            if shown["state"] in ("FAILED", "STOPPED"):
                raise AssertionError(f"it ended: {json.dumps(shown['error'])[:500]}")
            return shown if key in (shown["metrics"] or {}) else {}
        return wait_until(f"trial {number}/0 says {key}", told, deadline_s)

    def wait_end(self, number: int, deadline_s: float = 90) -> dict[str, Any]:
        over = ("COMPLETED", "FAILED", "STOPPED")
        wait_until(f"trial {number}/0 ends", lambda: self.show(number)["state"] in over, deadline_s)
        return self.show(number)

    def free_ms(self, number: int) -> int:
        """What the worker's log says of the end of the trial's last attempt."""
        found = re.findall(rf"t{number}-0\.\S*: its gpus are free (\d+) ms", self.log())
        if not found:
            raise AssertionError("the log does not say when its gpus were free")
        return int(found[-1])

    def log(self) -> str:
        path = self.cluster.home / "home/clusters/it/worker-1/log"
        return path.read_text(errors="replace")

    def losses(self, number: int) -> dict[int, str]:
        done = self.cluster.rt("logs", f"{number}/0")
        rows = [json.loads(line.split("RT_REPORT ", 1)[1]) for line in done.stdout.splitlines()
                if "RT_REPORT " in line]
        return {row["step"]: row["loss"] for row in rows if "loss" in row}


def check_probe(device: Device) -> None:
    if FAKE or not (BIN / "rt-probe").exists():
        CHECKS.line("probe", None, "left out: " + ("--fake" if FAKE else "no rt-probe"), "")
        return
    found = device.tool("rt-probe", timeout=60)
    one = found["devices"][0]
    sheet = next((value for name, value in SHEETS.items() if name in one["name"]), None)
    CHECKS.line("probe-verdict", found["ok"], f"ok={found['ok']} fault={one['fault']}", "ok")
    CHECKS.line("probe-memory", one["memory_errors"] == 0,
                f"{one['tested_bytes'] / GIB:.1f} GiB, {one['memory_errors']} errors", "0 errors")
    if sheet:
        CHECKS.line("probe-memory-bandwidth", one["copy_gbps"] >= 0.85 * sheet[0],
                    f"{one['copy_gbps']:.0f} GB/s of {sheet[0]}", f"{0.85 * sheet[0]:.0f}")
        slowest = min(one["to_device_gbps"], one["to_host_gbps"])
        CHECKS.line("probe-pcie", slowest >= 0.85 * sheet[1],
                    f"to device {one['to_device_gbps']:.1f}, to host {one['to_host_gbps']:.1f} "
                    f"GB/s of {sheet[1]}", f"{0.85 * sheet[1]:.1f}")
    CHECKS.line("probe-matmul", one["matmul_errors"] == 0,
                f"{one['matmul_tflops']:.0f} TFLOP/s fp16, {one['matmul_errors']} errors",
                "0 errors")
    CHECKS.line("probe-all-reduce", None,
                f"{found['all_reduce'] and found['all_reduce']['library']}: "
                f"{found['all_reduce'] and found['all_reduce']['note']}", "")
    CHECKS.bench("gpu_probe", found["seconds"], "s", "<= 10")
    CHECKS.line("probe-time", found["seconds"] <= 10, f"{found['seconds']:.1f} s", "10 s")


def check_type(device: Device) -> None:
    custom = device.cluster.node("worker-1")["resources_total"]["custom"]
    types = [name.split(":")[1] for name in custom if name.startswith("accelerator_type:")]
    CHECKS.line("type-known", len(types) == 1, f"{types} of {device.gpu()['name']!r}", "one")
    spec = "experiment: typed\ncommand: ['true']\nresources: {gpu: 1, gpu_type: [X1, %s]}\n"
    number = device.cluster.submit("typed", spec % types[0])
    CHECKS.line("type-placed", device.wait_end(number)["state"] == "COMPLETED", types[0], "")
    (device.cluster.work / "wrong.yaml").write_text(spec % "X2")
    refused = device.cluster.rt("submit", "--detach", "wrong.yaml", check=False)
    CHECKS.line("type-unknown", refused.returncode != 0 and types[0] in refused.stderr,
                refused.stderr.strip().replace("\n", " ")[:200], "names the types that are there")


def check_preflight(device: Device) -> None:
    if FAKE or not (BIN / "rt-probe").exists():
        CHECKS.line("preflight", None, "left out: " + ("--fake" if FAKE else "no rt-probe"), "")
        return
    spec = "experiment: tested\ncommand: ['true']\nresources: {gpu: 1}\npreflight: true\n"
    began = time.monotonic()
    shown = device.wait_end(device.cluster.submit("tested", spec))
    seconds = time.monotonic() - began
    DETAILS["preflight"] = shown
    CHECKS.line("preflight", shown["state"] == "COMPLETED" and len(shown["attempts"]) == 1,
                f"{shown['state']}, {shown['error']}", "completed at once")
    CHECKS.line("preflight-time", seconds <= 12, f"{seconds:.1f} s with the trial", "12 s")


def check_telemetry(device: Device) -> None:
    number = device.submit("busy", "busy", "12", "4", more="env: {RT_GPU_METRICS: 1}\n")
    device.wait_metric(number, "ready")
    pairs = []
    for _ in range(5):
        time.sleep(1)  # The pace of the samples.
        told = device.gpu()["telemetry"]
        pairs.append((told, smi("memory.used", "utilization.gpu", "temperature.gpu", "power.draw",
                                "clocks.sm", "pcie.link.gen.current")))
    DETAILS["telemetry"] = pairs
    last, other = pairs[-1]
    processes = [one["attempt"] for one in last["processes"]]

    def near(name: str, ours: float, theirs: float, bar: float, unit: str) -> None:
        CHECKS.line("telemetry-" + name, abs(ours - theirs) <= bar,
                    f"{ours:.0f} {unit}, nvidia-smi {theirs:.0f}", f"within {bar:.0f}")
    near("memory", last["memory_used_bytes"] / 2**20, other[0], 64, "MiB")
    near("utilisation", last["utilisation_percent"], other[1], 15, "%")
    near("temperature", last["temperature_c"], other[2], 4, "C")
    near("power", last["power_w"], other[3], max(40, 0.15 * other[3]), "W")
    near("clock", last["sm_mhz"], other[4], 150, "MHz")
    near("pcie", last["pcie_generation"], other[5], 0, "generation")
    CHECKS.line("telemetry-processes", None, f"attempts {processes}", "")
    shown = device.wait_end(number)
    use = shown["attempts"][-1]["gpu"]
    DETAILS["use"] = use
    CHECKS.line("use-of-trial", use["samples"] >= 8 and (FAKE or (
                    use["utilisation_mean_percent"] >= 40 and use["memory_peak_bytes"] >= 4 * GIB)),
                f"mean {use['utilisation_mean_percent']:.0f} %, peak "
                f"{use['memory_peak_bytes'] / GIB:.1f} GiB, {use['gpu_s']:.1f} gpu-seconds, idle "
                f"{use['idle_share']:.2f}, {use['power_mean_w']:.0f} W", "40 % and 4 GiB")
    row = shown["metrics"].get("gpu") or {}
    CHECKS.line("telemetry-rows", FAKE or row.get("power_w", 0) >= 100, json.dumps(row), "100 W")
    CHECKS.bench("gpu_free", device.free_ms(number), "ms", "<= 200")
    CHECKS.line("free-after-end", device.free_ms(number) <= 200, f"{device.free_ms(number)} ms",
                "200 ms")


def check_leftovers(device: Device) -> None:
    """A child in a session of its own; then a process that no parent of the trial knows."""
    ready = device.cluster.home / "left"
    number = device.submit("leaves", "leave", str(ready), "2")
    shown = device.wait_end(number)
    left = int(shown["metrics"]["left"])
    gone = wait_until("what was left is gone", lambda: not pathlib.Path(f"/proc/{left}").exists())
    CHECKS.line("child-is-ended", bool(gone),
                f"pid {left} is gone, free {device.free_ms(number)} ms after the end", "gone")
    if FAKE:
        CHECKS.line("stranger-is-ended", None, "left out: --fake", "")
        return
    go = device.cluster.home / "go"
    number = device.submit("token", "wait_for", str(go))
    shown = device.wait_metric(number, "waits")
    pid = shown["attempts"][-1]["members"][0]["pid"]
    inherited = dict(one.split("=", 1) for one in pathlib.Path(f"/proc/{pid}/environ").read_text()
                     .split("\0") if "=" in one)
    ready = device.cluster.home / "stranger"
    with subprocess.Popen([sys.executable, str(PROGRAMS), "hold", str(ready), "2"], env=inherited,
                          stdin=subprocess.DEVNULL) as stranger:
        try:
            wait_until("the stranger holds memory", ready.exists, 60)
            go.touch()
            device.wait_end(number)
            code = stranger.wait(timeout=20)
        finally:
            stranger.kill()
    named = f"ended pid {stranger.pid}" in device.log()
    CHECKS.line("stranger-is-ended", code == -signal.SIGKILL and named,
                f"exit {code}, named {named}, free {device.free_ms(number)} ms after the end",
                "killed and named")


def check_kept(device: Device) -> None:
    """Memory that nobody of ours holds keeps the gpu from the next trial, and why says so."""
    if FAKE:
        CHECKS.line("kept-from-next", None, "left out: --fake", "")
        return
    go, ready = device.cluster.home / "go2", device.cluster.home / "foreign"
    number = device.submit("kept", "wait_for", str(go))
    device.wait_metric(number, "waits")
    waits = device.submit("waits", "wait_for", str(go))
    with subprocess.Popen([sys.executable, str(PROGRAMS), "hold", str(ready), "3"],
                          env={**device.cluster.env, "CUDA_VISIBLE_DEVICES": "0"},
                          stdin=subprocess.DEVNULL) as foreign:
        try:
            wait_until("the foreign process holds memory", ready.exists, 60)
            go.touch()
            device.wait_end(number)
            why = device.gpu()["reason"] or ""
            reason = (device.show(waits)["waiting"] or {}).get("reason", "")
        finally:
            foreign.kill()
    CHECKS.line("kept-from-next", "in use after" in why and "takes no work" in reason,
                f"gpu: {why!r}; why: {reason!r}"[:300], "both say so")
    began = time.monotonic()
    state = device.wait_end(waits)["state"]
    CHECKS.line("free-again", state == "COMPLETED", f"{time.monotonic() - began:.1f} s later", "")


def check_out_of_memory(device: Device) -> None:
    number = device.submit("oom", "out_of_memory", more="retry: [{oom: true, then: fail}]\n"
                                                        "max_failures: 3\n")
    shown = device.wait_end(number)
    DETAILS["out of memory"] = shown
    error = shown["error"] or {}
    message = error.get("message") or ""
    CHECKS.line("oom-class", error.get("class") == "CudaOutOfMemory", str(error.get("class")),
                "CudaOutOfMemory")
    CHECKS.line("oom-peak-and-size", "of the gpu's" in message, message[-120:].replace("\n", " "),
                "both are told")
    CHECKS.line("oom-rule", len(shown["attempts"]) == 1 and
                shown["attempts"][0]["retry_rule"] == 1, f"{len(shown['attempts'])} attempts, rule "
                f"{shown['attempts'][0]['retry_rule']}", "1 attempt by rule 1")


def check_wrong_address(device: Device) -> None:
    number = device.submit("address", "wrong_address")
    shown = device.wait_end(number)
    heard = re.findall(r"Xid \d+[^\n]*", device.log())
    state = device.gpu()["state"]
    CHECKS.line("users-error", shown["state"] == "FAILED" and shown["failures"] == 1 and
                state == "READY", f"{shown['state']}, gpu {state}", "FAILED, READY")
    CHECKS.line("xid-heard", None, f"{len(heard)}: {heard[:2]}", "")


def check_suspend(device: Device) -> None:
    can = device.tool("rt-gpu-suspend", "check")
    CHECKS.line("suspend-possible", can["error"] is None, f"driver {can['driver']}: {can['error']}",
                "yes")
    gib = "0.01" if FAKE else "8"
    plain = device.submit("plain", "train", "60", gib, "0.05")
    device.wait_end(plain)
    number = device.submit("suspended", "train", "60", gib, "0.05")
    shown = device.wait_metric(number, "loss")
    pid = str(shown["attempts"][-1]["members"][0]["pid"])
    before = smi("memory.used")[0]
    began = time.monotonic()
    suspended = device.tool("rt-gpu-suspend", "suspend", pid)
    suspend_s = time.monotonic() - began
    between = smi("memory.used")[0]
    steps = device.show(number)["step"]
    time.sleep(1)  # It would report in this time.
    still = device.show(number)["step"]
    began = time.monotonic()
    resumed = device.tool("rt-gpu-suspend", "resume", pid)
    resume_s = time.monotonic() - began
    end = device.wait_end(number)
    same = device.losses(plain) == device.losses(number) and end["metrics"]["same"] == 1
    CHECKS.line("suspend", suspended["error"] is None,
                f"{suspended['seconds']:.2f} s ({suspend_s:.2f} with the program's start), "
                f"{before:.0f} -> {between:.0f} MiB, error {suspended['error']}", "")
    CHECKS.bench("gpu_suspend_8gb", suspended["seconds"], "s", "none")
    CHECKS.bench("gpu_resume_8gb", resumed["seconds"], "s", "none")
    CHECKS.line("suspend-frees-memory", FAKE or before - between > 8000,
                f"{before - between:.0f} MiB", "8000 MiB")
    CHECKS.line("suspend-stops", still - steps <= 1, f"steps {steps} -> {still} in a second", "1")
    CHECKS.line("resume", resumed["error"] is None,
                f"{resumed['seconds']:.2f} s ({resume_s:.2f} with the program's start), error "
                f"{resumed['error']}", "")
    CHECKS.line("same-losses", end["state"] == "COMPLETED" and same,
                f"{end['state']}, {len(device.losses(number))} losses, equal {same}", "equal")


def check_cost(device: Device) -> None:
    """Of the thread that samples, for one gpu and for eight of them."""
    pid = device.cluster.pid("worker-1")

    def spent_s() -> float:
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            if (task / "comm").read_text().strip() != "gpu-sampler":
                continue
            if (task / "schedstat").exists():
                return int((task / "schedstat").read_text().split()[0]) / 1e9
            ticks = (task / "stat").read_text().rsplit(") ", 1)[1].split()[11:13]
            return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        raise AssertionError("the worker has no thread gpu-sampler")
    seconds = 5 if FAKE else 10
    before = spent_s()
    time.sleep(seconds)
    share = (spent_s() - before) / seconds
    CHECKS.bench("gpu_telemetry", 800 * share, "% of a core for 8 gpus", "<= 0.5")
    # That of the tests' own driver, which reads a file for every number, says nothing.
    CHECKS.line("telemetry-cost", None if FAKE else 8 * share <= 0.005,
                f"{100 * share:.3f} % of a core for one gpu, {800 * share:.3f} % for eight",
                "0.5 % for eight")


def main() -> int:
    for name in ("checks.txt", "failures.txt"):
        (OUT / name).unlink(missing_ok=True)
    device = Device()
    checks = [("type", check_type), ("probe", check_probe),
              ("preflight", check_preflight), ("telemetry", check_telemetry),
              ("suspend", check_suspend), ("out-of-memory", check_out_of_memory),
              ("leftovers", check_leftovers), ("kept", check_kept), ("cost", check_cost),
              ("users-error", check_wrong_address)]
    try:
        for name, check in checks:
            CHECKS.run(name, lambda check=check: check(device))  # type: ignore[misc]
    finally:
        (OUT / "worker.log").write_text(device.log())
        DETAILS["node"] = device.cluster.node("worker-1")
        (OUT / "details.json").write_text(json.dumps(DETAILS, indent=1))
        device.cluster.close()
    print(f"{time.monotonic() - CHECKS.began:.0f} s; failed: {', '.join(CHECKS.failed) or 'none'}")
    return 1 if CHECKS.failed else 0


if __name__ == "__main__":
    sys.exit(main())
