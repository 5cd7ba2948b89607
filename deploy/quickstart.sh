#!/usr/bin/env bash
# From a fresh Debian machine to a finished search: installs packages, builds, searches the UCI digits
# on a local cluster and prints the best configuration. Safe to run twice.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { printf '\n== %s\n' "$*"; }

say "packages"
./deploy/install-deps.sh

say "build (build/release)"
cmake --preset release
cmake --build --preset release

say "Python environment (build/venv: cloudpickle, numpy, scikit-learn)"
if ! build/venv/bin/python -c 'import cloudpickle, numpy, sklearn' 2>/dev/null; then
  python3 -m venv build/venv
  build/venv/bin/python -m pip install --quiet --disable-pip-version-check \
    cloudpickle numpy scikit-learn
fi

say "the digits search"
started=$(date +%s)
RT_BIN="$PWD/build/release/bin" PYTHONPATH="$PWD/python" build/venv/bin/python \
  examples/digits/digits.py
say "done in $(($(date +%s) - started)) s; results are under ~/rt_results"
cat <<'NEXT'
Next:
  export RT_BIN=$PWD/build/release/bin PYTHONPATH=$PWD/python PATH=$PWD/build/release/bin:$PATH
  build/venv/bin/python your_search.py     # any Ray Tune script with `from rt import tune`
  rt --help
NEXT
