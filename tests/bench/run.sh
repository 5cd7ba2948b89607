#!/usr/bin/env bash
# The figures of docs/benchmarks.md, one line each: BENCH name value unit bar LIMIT peer TEXT.
#   tests/bench/run.sh [NAME…] [--peers] [--wheel] [--fsync-delay-ms MS] [--repeats N] [--overload-s S]
# NAME: trials_1s reports shell_trials digits wrapped submit idle loss slow_store core restart store
# next_trial planner elastic status fleet checkpoints data_torch data_map train elastic_lib elastic_accuracy
# elastic_live tasks far_tasks outside_tasks freeze gpu_given_back worker_killed …; without one, all of them. `loss`, `far_tasks` and `slow_store` need root.
# --wheel: the Python figures are those of the package as `pip install ./python` leaves it.
# --peers installs Ray in a virtual environment of its own and measures it in the same run.
# Builds what it needs. A figure is only worth its machine: run it where nothing else runs.
set -euo pipefail
cd "$(dirname "$0")/../.."
cmake --preset release >/dev/null
log=build/release/bench-build.log
targets=(rt_cli rt-head rt_worker rt_shim rt_gpu_suspend fake_nvml fake_cuda
  bench_sleep_trial bench_report_trial bench_core bench_restart bench_status bench_store
  bench_bare_transfer bench_clone bench_light_workers bench_next_trial
  bench_planner bench_elastic)
if ! cmake --build --preset release --target "${targets[@]}" >"$log" 2>&1; then
  tail -40 "$log" >&2
  exit 1
fi
venv=build/bench-venv
wanted="cloudpickle numpy scikit-learn"
if [ "$(cat "$venv/.installed" 2>/dev/null)" != "$wanted" ]; then
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  # shellcheck disable=SC2086
  "$venv/bin/pip" install --quiet --disable-pip-version-check $wanted
  echo "$wanted" >"$venv/.installed"
fi
# As pip leaves a package: else an environment that forbids writing bytecode compiles at each start.
"$venv/bin/python" -m compileall -q python/rt
exec "$venv/bin/python" tests/bench/bench.py "$@"
