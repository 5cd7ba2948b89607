#!/usr/bin/env bash
# Runs clang-tidy with the committed configuration over folders, or over what changed.
#   clang_tidy.sh [-j N] [FOLDER…]       default: the pure parts of both cores; minutes per folder
#   clang_tidy.sh [-j N] --changed       the lines that changed since RT_LINT_BASE (default: HEAD~1)
#                                        in at most 12 sources: those of the pure folders first
set -euo pipefail
cd "$(dirname "$0")/../.."
pure=(common/base common/spec common/algorithms common/decide common/search head/core worker/core)
changed_max=12
lines=()
jobs=2
if [ "${1:-}" = -j ]; then jobs=$2; shift 2; fi
tool=$(command -v clang-tidy-14 || command -v clang-tidy) ||
  { echo "clang_tidy: install clang-tidy-14 first" >&2; exit 1; }

if [ "${1:-}" = --changed ]; then
  base=${RT_LINT_BASE:-HEAD~1}
  mapfile -t all < <(git diff --name-only --diff-filter=d "$base" -- '*.cc' ':!tests')
  mapfile -t sources < <(
    printf '%s\n' "${all[@]}" | grep -E "^($(IFS='|'; echo "${pure[*]}"))/" || true
    printf '%s\n' "${all[@]}" | grep -Ev "^($(IFS='|'; echo "${pure[*]}"))/" | grep . || true)
  if [ "${#sources[@]}" -gt "$changed_max" ]; then
    echo "clang_tidy: left out ${sources[*]:changed_max}"
    sources=("${sources[@]:0:changed_max}")
  fi
  lines=("--line-filter=$(python3 tests/tidy/changed_lines.py "$base")")
else
  folders=("$@")
  [ "$#" -gt 0 ] || folders=("${pure[@]}")
  mapfile -t sources < <(find "${folders[@]}" -name '*.cc' | sort)
fi
echo "clang_tidy: ${#sources[@]} files"
[ "${#sources[@]}" -gt 0 ] || exit 0

# A build tree of its own: clang cannot read g++'s precompiled header, and needs the command of each
# file, not that of the file which includes it in a unity build.
build=build/clang-tidy
cmake --preset release -B "$build" -DRT_PCH=OFF -DRT_UNITY=OFF >/dev/null
cmake --build "$build" --target rt_proto_sources -- -k 0 >/dev/null
printf '%s\0' "${sources[@]}" |
  xargs -0 -n 1 -P "$jobs" "$tool" -p "$build" --quiet --warnings-as-errors='*' \
    "${lines[@]}" --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-unused-command-line-argument
echo "clang_tidy: nothing to complain about"
