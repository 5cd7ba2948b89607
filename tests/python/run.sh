#!/usr/bin/env bash
# Tests the Python package in build/venv. Arguments go to pytest. tests/python/lint.sh lints it.
set -euo pipefail
cd "$(dirname "$0")/../.."
tests/python/venv.sh
# Files of a test go when it has passed: some write half a GiB.
PYTHONPATH=$PWD/python exec build/venv/bin/python -m pytest -q -p no:cacheprovider \
  -o tmp_path_retention_policy=failed --junitxml build/pytest.xml tests/python "$@"
