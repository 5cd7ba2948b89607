#!/usr/bin/env bash
# Lints, type-checks and tests the Python package in build/venv, which it makes when it is missing.
# Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=build/venv
wanted="cloudpickle numpy scikit-learn pytest ruff mypy"
if [ "$(cat "$venv/.installed" 2>/dev/null)" != "$wanted" ]; then
  mkdir -p build
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  # shellcheck disable=SC2086
  "$venv/bin/pip" install --quiet --disable-pip-version-check $wanted
  echo "$wanted" > "$venv/.installed"
fi
"$venv/bin/ruff" check python
"$venv/bin/ruff" format --check python
"$venv/bin/ruff" check --config python/pyproject.toml tests/python
"$venv/bin/ruff" check examples
(cd python && "../$venv/bin/mypy" rt)
PYTHONPATH=$PWD/python exec "$venv/bin/python" -m pytest -q -p no:cacheprovider --junitxml build/pytest.xml tests/python "$@"
