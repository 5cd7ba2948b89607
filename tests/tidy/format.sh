#!/usr/bin/env bash
# Checks with clang-format the lines of C++ that changed since RT_LINT_BASE (default: HEAD~1), those
# that are not committed included. Prints the difference that would mend them.
set -euo pipefail
cd "$(dirname "$0")/../.."
base=${RT_LINT_BASE:-HEAD~1}
if ! git rev-parse --verify --quiet "$base^{commit}" >/dev/null; then
  echo "format: there is no commit $base to compare with; set RT_LINT_BASE" >&2
  exit 1
fi
found=$(git clang-format-14 --binary "$(command -v clang-format-14)" --diff --extensions cc,h "$base" -- \
  | grep -v -e '^no modified files' -e '^clang-format did not modify' || true)
if [ -n "$found" ]; then
  printf '%s\n' "$found"
  echo "format: lines that changed since $base; to mend them: git clang-format-14 $base"
  exit 1
fi
echo "format: nothing to complain about since $base"
