#!/usr/bin/env bash
# Lints, type-checks and tests the Python package in build/venv. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/../.."
tests/python/venv.sh
venv=build/venv
"$venv/bin/ruff" check python
"$venv/bin/ruff" format --check python
"$venv/bin/ruff" check --config python/pyproject.toml tests/python
"$venv/bin/ruff" check examples
(cd python && "../$venv/bin/mypy" rt)
PYTHONPATH=$PWD/python exec "$venv/bin/python" -m pytest -q -p no:cacheprovider --junitxml build/pytest.xml tests/python "$@"
