#!/bin/sh
# Gradient descent on f(x) = (x - 3)^2 + 1 with awk for the arithmetic: a trial in a shell. It keeps
# its state in a checkpoint, so that a trial whose machine vanished goes on where it was.
set -eu
rate=$1
x=0
step=0
if [ -n "${RT_CHECKPOINT_DIR:-}" ]; then
  read -r step x < "$RT_CHECKPOINT_DIR/state"
fi
mkdir -p checkpoint
while [ "$step" -lt 27 ]; do
  step=$((step + 1))
  x=$(awk -v x="$x" -v rate="$rate" 'BEGIN { printf "%.12g", x - rate * 2 * (x - 3) }')
  loss=$(awk -v x="$x" 'BEGIN { printf "%.12g", (x - 3) ^ 2 + 1 }')
  echo "$step $x" > checkpoint/state
  if [ $((step % 9)) -eq 0 ]; then
    rt report loss="$loss" x="$x" --step "$step" --checkpoint checkpoint
  elif [ "$(rt report loss="$loss" x="$x" --step "$step" --wait)" = stop ]; then
    echo "stopped early at step $step"
    exit 0
  fi
done
