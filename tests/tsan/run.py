"""Real clusters whose workers watch themselves with ThreadSanitizer. run.py BIN TSAN_BIN [MODULE…]

BIN has the programs as people run them, TSAN_BIN the rt-worker of the build `tsan`. Fails when a
test fails or a worker reports anything.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

INTEGRATION = pathlib.Path(__file__).resolve().parent.parent / "integration"
# Between them: a lost head, trees between workers, checkpoints, logs and jobs; the longest first.
MODULES = ["test_disconnect", "test_peers", "test_checkpoint", "test_basic"]
AT_ONCE = 2


def reports(directory: pathlib.Path) -> str:
    return "\n".join(path.read_text(errors="replace") for path in sorted(directory.iterdir()))


def check_self_test(program: pathlib.Path) -> None:
    """It reports what it should, and nothing else."""
    for mode, expected in (("race", True), ("lock", False)):
        done = subprocess.run([str(program), mode], capture_output=True, text=True, timeout=60)
        if ("data race" in done.stderr) is not expected:
            raise SystemExit(f"{program} {mode}: {done.stdout}{done.stderr}")


def main() -> int:
    ours, watched = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    modules = sys.argv[3:] or MODULES
    check_self_test(watched / "tsan_self_test")
    with tempfile.TemporaryDirectory(prefix="rt-tsan-") as name:
        place = pathlib.Path(name)
        (place / "bin").mkdir()
        (place / "reports").mkdir()
        for program in ("rt", "rt-cli", "rt-head", "rt-shim"):
            shutil.copy2(ours / program, place / "bin" / program)
        shutil.copy2(watched / "rt-worker", place / "bin/rt-worker")
        environment = dict(os.environ, RT_BIN=str(place / "bin"),
                           TSAN_OPTIONS=f"log_path={place}/reports/worker exitcode=0")
        failed = 0

        def run(module: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run([sys.executable, "-m", "unittest", "-v", module],
                                  cwd=INTEGRATION, env=environment, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        with ThreadPoolExecutor(AT_ONCE) as pool:  # Most of the time a module waits.
            for done in pool.map(run, modules):
                print(done.stdout, flush=True)
                failed |= done.returncode
        found = reports(place / "reports")
    if found:
        print(found)
    return 1 if failed or found else 0


if __name__ == "__main__":
    sys.exit(main())
