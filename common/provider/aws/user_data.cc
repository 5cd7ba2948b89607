#include "common/provider/aws/user_data.h"

#include <utility>
#include <vector>

#include "common/base/limits_aws.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

// The machine ends itself when the worker cannot be brought up or has ended: it would cost money
// and do nothing. InstanceInitiatedShutdownBehavior makes that a termination.
constexpr char kBegin[] = R"script(#!/bin/sh
# Starts the rt worker of this machine. Written by rt; the values are below, each as base64.
set -u
umask 077
boot=/run/rt-boot
opt=/opt/rt
state=/var/lib/rt-worker
log=/var/log/rt-worker.log

finish() {
  echo "rt: $1; this machine ends" >>"$log"
  shutdown -h now
  exit 1
}
value() { cat "$boot/$1"; }
has() { [ -s "$boot/$1" ]; }
download() {
  if command -v curl >/dev/null 2>&1; then
    curl -fsS --retry 3 --max-time 600 -o "$2" -- "$1"
  else
    wget -q -T 60 -O "$2" -- "$1"
  fi
}
fetch_programs() {
  has programs_url || return 0
  [ "$(cat "$opt/sha256" 2>/dev/null)" = "$(value programs_sha256)" ] && return 0
  tries=0
  until download "$(value programs_url)" "$boot/programs" >>"$log" 2>&1 &&
      echo "$(value programs_sha256)  $boot/programs" | sha256sum -c - >>"$log" 2>&1; do
    tries=$((tries + 1))
    [ "$tries" -lt 20 ] || finish "the programs could not be fetched"
    sleep 3
  done
  mkdir -p "$opt"
  tar -xzf "$boot/programs" -C "$opt" || finish "the programs could not be unpacked"
  chmod -R go+rX "$opt"
  value programs_sha256 >"$opt/sha256"
  rm -f "$boot/programs"
}
run_worker() {
  if [ -n "$user" ]; then runuser -u "$user" -- "$@"; else "$@"; fi
}

mkdir -p "$boot" "$state"
chmod 700 "$boot" "$state"
while read -r name text; do
  case "$name" in *[!a-z0-9_]* | '') continue ;; esac
  printf '%s' "$text" | base64 -d >"$boot/$name"
done <<'RT_BOOT'
)script";

constexpr char kEnd[] = R"script(RT_BOOT

fetch_programs
worker=$opt/bin/rt-worker
[ -x "$worker" ] || worker=$(command -v rt-worker) || finish "there is no rt-worker"
user=
if has user && id -- "$(value user)" >/dev/null 2>&1; then user=$(value user); fi
cp "$boot/token" "$state/join-token"
if [ -n "$user" ]; then chown -- "$user" "$state" "$state/join-token"; fi
set -- "$worker" --head "$(value head)" --token-file "$state/join-token" --state-dir "$state" \
  --name "$(value name)" --notices aws
if has resources; then set -- "$@" --resources "$(value resources)"; fi
if has labels; then set -- "$@" --labels "$(value labels)"; fi
left=20
while run_worker "$@" >>"$log" 2>&1; code=$?; [ "$code" -ne 0 ]; do
  left=$((left - 1))
  [ "$left" -gt 0 ] || finish "the worker keeps failing"
  sleep 2
done
finish "the worker has ended"
)script";

}  // namespace

// A client that vanished before it had started the head leaves a machine that nobody asks for
// anything. Setup commands may take an hour; the agent is there before they run.
const char kHeadUserData[] = R"script(#!/bin/sh
# The machine of the head of an rt cluster. Its client starts everything over ssh.
(
  sleep 3600
  ls -d /home/*/.rt-node /root/.rt-node >/dev/null 2>&1 || shutdown -h now
) </dev/null >/dev/null 2>&1 &
)script";

absl::StatusOr<std::string> WorkerUserData(const WorkerBoot& boot) {
  const std::vector<std::pair<std::string, const std::string*>> values = {
      {"head", &boot.head_address},
      {"token", &boot.token},
      {"name", &boot.name},
      {"resources", &boot.resources},
      {"labels", &boot.labels},
      {"user", &boot.user},
      {"programs_url", &boot.programs_url},
      {"programs_sha256", &boot.programs_sha256}};
  std::string script = kBegin;
  for (const auto& [name, value] : values)
    if (!value->empty()) script += name + " " + Base64Encode(*value) + "\n";
  script += kEnd;
  if (script.size() > limits::kEc2UserDataMax)
    return Invalid("the user data of machine " + boot.name + " has " +
                       std::to_string(script.size()) + " bytes, more than EC2 takes",
                   "shorten the labels of the node type");
  return script;
}

}  // namespace rt
