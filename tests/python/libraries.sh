#!/usr/bin/env bash
# Tests the callbacks and OptunaSearch with the real libraries, in build/libraries-venv. Installing
# them is too much for each change; the quick tests use what fake_libraries.py records of them.
# PyTorch, XGBoost and LightGBM are those of build/venv. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/../.."
tests/python/venv.sh
venv=build/libraries-venv
wanted="mlflow-skinny==3.17.2 wandb==0.31.0 optuna==5.0.0 keras==3.15.1 pytorch-lightning==2.6.6"
wanted="$wanted transformers==5.24.0 accelerate==1.15.0 comet_ml==3.58.8"
if [ "$(cat "$venv/.installed" 2>/dev/null)" != "$wanted" ]; then
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  build/venv/bin/python -c 'import site; print(site.getsitepackages()[0])' \
    > "$("$venv/bin/python" -c 'import site; print(site.getsitepackages()[0])')/tested.pth"
  # shellcheck disable=SC2086
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check $wanted
  echo "$wanted" > "$venv/.installed"
fi
PYTHONPATH=$PWD/python:$PWD/tests/python exec "$venv/bin/python" -m pytest -q -p no:cacheprovider \
  -o python_files='real_*.py' tests/python/libraries "$@"
