#!/usr/bin/env bash
# Lints and type-checks the Python package, its tests and the examples. The tools live in
# build/lint-venv, so that this needs nothing of what the tests install (build/venv).
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=build/lint-venv
# Pinned: the rules of a newer linter are no reason for the tests to fail.
tools="ruff==0.17.6 mypy==2.4.1 cloudpickle"
mkdir -p build
exec 9> build/lint-venv.lock
flock 9
if [ "$(cat "$venv/.installed" 2>/dev/null)" != "$tools" ]; then
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  # shellcheck disable=SC2086
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check $tools
  echo "$tools" > "$venv/.installed"
fi
"$venv/bin/ruff" check python
"$venv/bin/ruff" format --check python
"$venv/bin/ruff" check --config python/pyproject.toml tests/python
"$venv/bin/ruff" check examples
cd python
exec "../$venv/bin/mypy" rt
