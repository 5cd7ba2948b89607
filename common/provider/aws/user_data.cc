#include "common/provider/aws/user_data.h"

#include <utility>
#include <vector>

#include "common/base/limits_aws.h"
#include "common/base/limits_hosts.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

static_assert(limits::kProgramsPieceBytes + 11 == 1'048'587);  // In the script.

// The machine ends itself when the worker cannot be brought up or has ended: it would cost money
// and do nothing. InstanceInitiatedShutdownBehavior makes that a termination.
constexpr char kBegin[] = R"script(#!/bin/sh
# Starts the rt worker of this machine. Written by rt; the values are below, each as base64.
set -uf
umask 077
boot=/run/rt-boot
opt=/opt/rt
state=/var/lib/rt-worker
log=/var/log/rt-worker.log

finish() {
  echo "rt: $1; this machine ends" | tee -a "$log"
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
# The programs come over mutual TLS, with the certificate of the join token: a JSON object.
member() {
  value token | sed 's/^rtj1[.]//' | base64 -d | sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"
}
prepare_to_ask() {
  command -v curl >/dev/null 2>&1 || finish "this image has no curl to fetch the programs with"
  case "$(curl -V)" in
    *HTTP2*) ;;
    *) finish "the curl of this image has no HTTP/2: use another image, or provider.programs" ;;
  esac
  for name in ca cert key; do printf '%b' "$(member "$name")" >"$boot/$name.pem"; done
  cluster=$(member cluster)
  printf '\0\0\0\0\0' >"$boot/empty"
}
# A gRPC call without arguments of the head at $1. Its messages are pieces of 1 MiB of the archive,
# and what precedes each has 11 bytes.
ask_head() {
  : >"$boot/headers"
  curl -q -sS --http2 --noproxy '*' --connect-timeout 10 --max-time 300 \
    --cacert "$boot/ca.pem" --cert "$boot/cert.pem" --key "$boot/key.pem" \
    --connect-to "::$1" -H 'content-type: application/grpc' -H 'te: trailers' \
    --data-binary "@$boot/empty" -D "$boot/headers" -o "$boot/answer" \
    "https://head.$cluster.rt/rt.v1.BootService/Programs" || return 1
  sed -n 's/^grpc-message: */the head says: /p' "$boot/headers"
  if grep -q '^grpc-status: 7' "$boot/headers"; then refused=1; fi
  : >"$boot/programs"
  at=0
  while dd if="$boot/answer" bs=1048587 skip="$at" count=1 2>"$boot/dd" |
      tail -c +12 >"$boot/piece"; do
    [ -s "$boot/piece" ] || break
    cat "$boot/piece" >>"$boot/programs"
    at=$((at + 1))
  done
  rm -f "$boot/piece" "$boot/dd"
}
is_whole() { echo "$(value programs_sha256)  $boot/programs" | sha256sum -c -; }
download_from_url() { download "$(value programs_url)" "$boot/programs" && is_whole; }
download_from_head() {
  for head in $(value head | tr ',' ' '); do
    ask_head "$head" && is_whole && return 0
  done
  return 1
}
fetch_programs() {
  has programs_sha256 || return 0
  [ "$(cat "$opt/sha256" 2>/dev/null)" = "$(value programs_sha256)" ] && return 0
  has programs_url || prepare_to_ask
  pause=1
  tries=0
  refused=
  until=$(($(date +%s) + 720))  # The token lives for 900 s.
  while :; do
    if has programs_url; then download_from_url; else download_from_head; fi >>"$log" 2>&1 && break
    tries=$((tries + 1))
    if [ -n "$refused" ] || [ "$tries" -ge 50 ] || [ "$(date +%s)" -ge "$until" ]; then
      tail -n 5 "$log"
      finish "the programs could not be fetched"
    fi
    sleep $((pause + $(od -An -N1 -tu1 /dev/urandom) % 3))
    [ "$pause" -ge 16 ] || pause=$((pause * 2))
  done
  rm -f "$boot/answer" "$boot/headers" "$boot/ca.pem" "$boot/cert.pem" "$boot/key.pem"
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
if has dead_man; then set -- "$@" --dead-man "$(value dead_man)"; fi
# Runs the setup commands first, and the worker with the environment of a login shell.
if [ -x "${worker%/*}/rt" ]; then set -- "${worker%/*}/rt" __machine "$@"; fi
left=20
while run_worker "$@" >>"$log" 2>&1; code=$?; [ "$code" -ne 0 ]; do
  [ "$code" -ne 3 ] || finish "the head was silent for too long"
  left=$((left - 1))
  [ "$left" -gt 0 ] || finish "the worker keeps failing"
  sleep 2
done
finish "the worker has ended"
)script";

}  // namespace

// The head says with the file end-machine that its machine is to end. A client that vanished before
// it had started the head leaves a machine that nobody asks for anything; it ends after an hour.
// Setup commands may take longer, but the agent is there before they run.
const char kHeadUserData[] = R"script(#!/bin/sh
# The machine of the head of an rt cluster. Its client starts everything over ssh.
(
  left=1800
  while sleep 2; do
    for place in /home/*/.rt-node /root/.rt-node; do
      [ ! -e "$place/end-machine" ] || shutdown -h now
      [ ! -e "$place" ] || left=0
    done
    [ "$left" -ne 1 ] || shutdown -h now
    left=$((left - 1))
  done
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
      {"dead_man", &boot.dead_man},
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
