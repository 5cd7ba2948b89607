#!/usr/bin/env bash
# Makes build/venv, in which the Python package and the examples are tested. PyTorch (its CPU build)
# is installed where it can be; the tests that need it are skipped otherwise, and say so.
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=build/venv
wanted="cloudpickle numpy scikit-learn pytest ruff mypy pyte ipykernel nbclient"
torch="torch==2.13.0"
mkdir -p build
exec 9> build/venv.lock
flock 9
if [ "$(cat "$venv/.installed" 2>/dev/null)" != "$wanted" ]; then
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  # shellcheck disable=SC2086
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check $wanted
  echo "$wanted" > "$venv/.installed"
fi
if [ "$(cat "$venv/.torch" 2>/dev/null)" != "$torch" ]; then
  if "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$torch"; then
    echo "$torch" > "$venv/.torch"
  else
    echo "venv.sh: $torch cannot be installed here; the examples that need it are left out"
  fi
fi
