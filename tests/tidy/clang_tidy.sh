#!/usr/bin/env bash
# Runs clang-tidy with the committed configuration over folders of the tree. Not part of
# tests/run.sh: it takes minutes per folder, and clang-tidy is no dependency of the build.
#   clang_tidy.sh [-j N] [FOLDER…]       default: the pure parts of both cores
set -euo pipefail
cd "$(dirname "$0")/../.."
jobs=2
if [ "${1:-}" = -j ]; then jobs=$2; shift 2; fi
folders=("$@")
[ "$#" -gt 0 ] || folders=(common/base common/spec head/core head/decide head/search worker/core)
command -v clang-tidy >/dev/null || { echo "clang_tidy: install clang-tidy first" >&2; exit 1; }

# A build tree of its own: clang cannot read g++'s precompiled header.
build=build/clang-tidy
cmake --preset release -B "$build" -DRT_PCH=OFF >/dev/null
cmake --build "$build" --target rt_store_proto rt_wire_proto -- -k 0 >/dev/null
mapfile -t sources < <(find "${folders[@]}" -name '*.cc' | sort)
echo "clang_tidy: ${#sources[@]} files"
printf '%s\0' "${sources[@]}" |
  xargs -0 -n 1 -P "$jobs" clang-tidy -p "$build" --quiet --warnings-as-errors='*' \
    --extra-arg=-Wno-unknown-warning-option
echo "clang_tidy: nothing to complain about"
