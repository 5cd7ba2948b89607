#!/usr/bin/env bash
# From a fresh Debian machine to a finished search: installs packages, builds, searches the UCI digits
# on a local cluster of a head and two workers, and prints the best configuration. Safe to run twice;
# as root or with sudo.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { printf '\n== %s\n' "$*"; }

say "packages"
./deploy/install-deps.sh

say "build (build/release)"
cmake --preset release
cmake --build --preset release --target rt rt-head rt-worker rt-shim

say "Python environment (build/venv: cloudpickle, numpy, scikit-learn)"
python=$PWD/build/venv/bin/python
if "$python" -c 'import cloudpickle, numpy, sklearn' 2>/dev/null; then
  echo "it is there"
else
  python3 -m venv build/venv
  "$python" -m pip install --quiet --disable-pip-version-check cloudpickle numpy scikit-learn
fi

# A cluster with a home of its own, so that none that you keep is touched, and none is left.
export RT_HOME=$PWD/build/quickstart
export PATH=$PWD/build/release/bin:$PWD/build/venv/bin:$PATH
cluster=deploy/quickstart.yaml
started=$(date +%s)
say "a local cluster: a head and two workers ($cluster)"
trap 'rt down "$cluster" --purge' EXIT
rt up "$cluster"
rt node list

say "the digits search (examples/digits/digits.py)"
(cd examples/digits && rt submit digits.py) | tee build/quickstart.out
rt trial list

say "the end of the cluster"
trap - EXIT
rt down "$cluster" --purge
say "done: the search and its cluster took $(($(date +%s) - started)) s; the results are in ~/rt_results"
tail -n 2 build/quickstart.out
cat <<NEXT

Next:
  export RT_BIN=$PWD/build/release/bin PYTHONPATH=$PWD/python PATH=$PWD/build/release/bin:\$PATH
  build/venv/bin/python your_search.py     # any Ray Tune script with 'from rt import tune'
  rt --help
NEXT
