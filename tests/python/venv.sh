#!/usr/bin/env bash
# Makes build/venv, in which the Python package and the examples are tested. PyTorch (its CPU build),
# XGBoost and LightGBM are installed where they can be; the tests that need them are skipped
# otherwise, and say so.
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=build/venv
# What users install is the newest, as they get it. Tools are pinned: a new linter's rules are no
# reason for the tests to fail.
wanted="cloudpickle numpy scikit-learn tensorboard safetensors"
wanted="$wanted pandas==3.1.1 pyarrow==26.0.1 setuptools>=70.1"
wanted="$wanted pytest==9.2.0 pyte==0.8.2 ipykernel==7.4.0 nbclient==0.11.0 moto[server]==5.2.5"
torch="torch==2.13.0"
xgboost="xgboost-cpu==3.2.0"
lightgbm="lightgbm==4.6.0"
mkdir -p build
exec 9> build/venv.lock
flock 9
if [ "$(cat "$venv/.installed" 2>/dev/null)" != "$wanted" ]; then
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  # shellcheck disable=SC2086
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check $wanted
  echo "$wanted" > "$venv/.installed"
fi
optional() {  # NAME REQUIREMENT
  if [ "$(cat "$venv/.$1" 2>/dev/null)" = "$2" ]; then return; fi
  if "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$2"; then
    echo "$2" > "$venv/.$1"
  else
    echo "venv.sh: $2 cannot be installed here; the examples that need it are left out"
  fi
}
optional torch "$torch"
optional xgboost "$xgboost"
optional lightgbm "$lightgbm"
