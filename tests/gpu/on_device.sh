#!/bin/sh
# Checks of rt on a machine with an NVIDIA gpu: prints one line for each check with its figure and
# its bar, writes the details into FOLDER, goes on after a check that fails, and ends with 1 if one
# did. It takes less than four minutes, changes no setting of the gpu, and leaves nothing running.
#
#   tests/gpu/on_device.sh [--fake] FOLDER
#
# It needs a driver of release 570 or later (nvidia-smi), and a python3 with PyTorch for CUDA and
# cloudpickle. The programs are those of the folder RT_BIN, or of build/release/bin. tests/gpu/pack.sh
# makes an archive of all that this script needs, for a machine without them. --fake takes the tests' own
# driver libraries in place of NVIDIA's: everything that computes on a gpu is left out then.
set -eu
from=$PWD
cd "$(dirname "$0")/../.."
fake=
if [ "${1:-}" = --fake ]; then fake=--fake; shift; fi
if [ $# -ne 1 ]; then
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | sed '$d' >&2
    exit 2
fi
if [ -z "${RT_BIN:-}" ]; then
    RT_BIN=$PWD/build/release/bin
    if [ -x bin/rt ]; then RT_BIN=$PWD/bin; fi
fi
export RT_BIN
for program in rt rt-head rt-worker rt-shim; do
    [ -x "$RT_BIN/$program" ] || { echo "$RT_BIN/$program is missing" >&2; exit 2; }
done
case $1 in /*) out=$1 ;; *) out=$from/$1 ;; esac
mkdir -p "$out"
exec "${PYTHON:-python3}" tests/gpu/on_device.py $fake "$out"
