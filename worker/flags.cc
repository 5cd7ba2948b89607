#include "worker/flags.h"

#include <sched.h>
#include <unistd.h>

#include <cctype>
#include <cstdio>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "worker/notice/notice_choice.h"

namespace rt::worker {

const char kUsage[] =
    R"(rt-worker: the daemon of one node, which runs the programs of trials and jobs.

Usage: rt-worker --head ADDR:PORT[,...] --state-dir DIR [options]

  --head ADDR:PORT[,...]     address of the head, or of each head of the cluster
  --state-dir DIR            directory of everything that the worker keeps
  --token-file FILE          join token of 'rt token create --role worker'; needed once
  --name NAME                name of the node (default: chosen by the head)
  --resources K=V,...        what the node offers, such as cpu=2,gpu=1,memory=8GiB,fpga=1
                             (default: all cpus, memory and gpus of the machine)
  --labels K=V,...           labels of the node
  --gpu-share K/N            offer the K-th of N equal parts of the machine's gpus
  --disconnect-stop TIME     ask the programs to save, and end them, after this time without
                             a head (default: 15m; 0: never)
  --dead-man TIME            exit with status 3 after this time without a head, so that the
                             machine can be switched off (default: never)
  --away TIME                announced absence after SIGTERM, during which trials keep
                             running and their place (default: 10s; at most 5m; 0: none)
  --loop-hang TIME           restart a daemon whose loop hangs for this time, without the
                             attempt that it hung in (default: 30s; 0: never)
  --notices auto|none|NAME,...
                             sources of the notice that the machine will be taken away: aws,
                             aws-interruption, gcp, azure, slurm, kubernetes, sigterm
  --notice-file PATH         drain the node while this file exists
  --notice-url URL           metadata server to ask for notices (for tests)
  --notice-grace TIME        longest wait for the trials after SIGTERM, with the sources
                             kubernetes and sigterm (default: 30s)
  --peer-port PORT|off       port at which other workers fetch checkpoints (default: any)
  --peer-bandwidth SIZE      limit in bytes per second for other workers (default: none)
  --keep-checkpoints SIZE    disk space for checkpoints that the next restore may need
                             (default: 10GiB, at most a tenth of the disk; 0: none)
  --keep-outputs SIZE        limit for the files of one trial or job that are kept
                             (default: 1GiB; 0: none)
  --failpoints               list the failpoints for RT_FAILPOINTS=NAME=ACTION[@K],... (tests)
  --version                  print the version
  --help                     print this help

Example:
  rt-worker --head head.lan:7070 --state-dir /var/lib/rt-worker --token-file token
)";

namespace {

// The cores we may run on and the machine's memory, where the flag does not name them.
void FillDefaults(std::string_view text, Flags& flags) {
  Resources& resources = flags.resources;
  std::string low = "," + std::string(text);
  for (char& c : low) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  flags.says_gpus = low.find(",gpu=") != std::string::npos;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (low.find(",cpu=") == std::string::npos) {
    const bool known = ::sched_getaffinity(0, sizeof cores, &cores) == 0;
    resources.cpu = kUnit * (known ? CPU_COUNT(&cores) : ::sysconf(_SC_NPROCESSORS_ONLN));
  }
  if (low.find(",memory=") == std::string::npos) {
    resources.memory = Bytes{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  }
}

absl::StatusOr<std::map<std::string, std::string>> ParseLabels(const std::string& text) {
  std::map<std::string, std::string> labels;
  if (text.empty()) return labels;
  for (const std::string& part : Split(text, ',')) {
    size_t equals = part.find('=');
    if (equals == 0 || equals == std::string::npos)
      return Invalid("--labels: '" + part + "' is not NAME=VALUE");
    labels[part.substr(0, equals)] = part.substr(equals + 1);
  }
  return labels;
}

absl::Status ReadSpan(const std::string& flag, const std::string& text, Millis most, Millis& span) {
  if (text.empty()) return absl::OkStatus();
  const std::optional<double> seconds = ParseDurationSeconds(text);
  if (!seconds.has_value() || *seconds < 0 || *seconds > ToSeconds(most))
    return Invalid(flag + ": '" + text + "' is not a duration of at most " +
                       FormatDouble(ToSeconds(most)) + " s",
                   flag + " " + FormatDouble(ToSeconds(span)) + "s");
  span = static_cast<Millis>(*seconds * 1'000);
  return absl::OkStatus();
}

// "2/3": the second of three.
absl::Status ReadShare(const std::string& text, Flags& flags) {
  if (text.empty()) return absl::OkStatus();
  unsigned part = 0, parts = 0;
  char end = 0;
  if (std::sscanf(text.c_str(), "%u/%u%c", &part, &parts, &end) != 2 || part < 1 ||
      part > parts || parts > 1'024)
    return Invalid("--gpu-share: must be K/N with K from 1 to N, not '" + text + "'");
  flags.gpu_share = part - 1;
  flags.gpu_shares = parts;
  return absl::OkStatus();
}

absl::Status ReadPeers(const std::string& port, const std::string& bandwidth,
                       const std::string& keep, Flags& flags) {
  char end = 0;
  if (port == "off") {
    flags.peer_port = -1;
  } else if (!port.empty() && (std::sscanf(port.c_str(), "%d%c", &flags.peer_port, &end) != 1 ||
                               flags.peer_port < 0 || flags.peer_port > 65'535)) {
    return Invalid("--peer-port: must be a port or 'off', not '" + port + "'", "--peer-port 7071");
  }
  const std::optional<int64_t> rate = ParseBytes(bandwidth.empty() ? "0" : bandwidth);
  if (!rate || *rate < 0 || (!bandwidth.empty() && *rate < 65'536))
    return Invalid("--peer-bandwidth: must be at least 64KiB, not '" + bandwidth + "'",
                   "--peer-bandwidth 1GiB");
  flags.peer_bandwidth = *rate;
  if (keep.empty()) return absl::OkStatus();
  const std::optional<int64_t> kept = ParseBytes(keep);
  if (!kept || *kept < 0)
    return Invalid("--keep-checkpoints: '" + keep + "' is not a size", "--keep-checkpoints 10GiB");
  flags.keep_checkpoints = *kept;
  return absl::OkStatus();
}

absl::Status ReadKeepOutputs(const std::string& text, Flags& flags) {
  if (text.empty()) return absl::OkStatus();
  const std::optional<int64_t> bytes = ParseBytes(text);
  if (!bytes || *bytes < 0)
    return Invalid("--keep-outputs: '" + text + "' is not a size", "--keep-outputs 1GiB");
  flags.keep_outputs = *bytes;
  return absl::OkStatus();
}

absl::Status ReadGrace(const std::string& text, Flags& flags) {
  if (text.empty()) return absl::OkStatus();
  const std::optional<double> seconds = ParseDurationSeconds(text);
  if (!seconds || *seconds <= 0 || *seconds > ToSeconds(limits::kDrainMax))
    return Invalid("--notice-grace: '" + text + "' is not a duration of at most 30 days",
                   "--notice-grace 30s");
  flags.notice_grace = static_cast<Millis>(*seconds * 1'000);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Flags> ParseFlags(int argc, char** argv) {
  Flags flags;
  std::string resources;
  std::string labels;
  std::string share, notices = "auto", grace;
  std::string disconnect_stop, dead_man, away, loop_hang;
  std::string peer_port, peer_bandwidth, keep, keep_outputs;
  const std::map<std::string, std::string*> known = {{"--head", &flags.head},
                                                     {"--token-file", &flags.token_file},
                                                     {"--state-dir", &flags.state_dir},
                                                     {"--name", &flags.name},
                                                     {"--resources", &resources},
                                                     {"--labels", &labels},
                                                     {"--gpu-share", &share},
                                                     {"--disconnect-stop", &disconnect_stop},
                                                     {"--dead-man", &dead_man},
                                                     {"--peer-port", &peer_port},
                                                     {"--peer-bandwidth", &peer_bandwidth},
                                                     {"--keep-checkpoints", &keep},
                                                     {"--keep-outputs", &keep_outputs},
                                                     {"--away", &away},
                                                     {"--loop-hang", &loop_hang},
                                                     {"--notices", &notices},
                                                     {"--notice-file", &flags.notice_file},
                                                     {"--notice-grace", &grace},
                                                     {"--notice-url", &flags.notice_url}};
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    flags.help = flags.help || word == "--help" || word == "-h";
    flags.version = flags.version || word == "--version";
    flags.failpoints = flags.failpoints || word == "--failpoints";
    if (flags.help || flags.version || flags.failpoints) return flags;
    size_t equals = word.find('=');
    auto found = known.find(word.substr(0, equals));
    if (found == known.end()) {
      std::vector<std::string> names;
      for (const auto& [name, value] : known) names.push_back(name);
      const std::string near = DidYouMean(word.substr(0, equals), names);
      return Invalid("unknown flag '" + word.substr(0, equals) + "'" +
                     (near.empty() ? "" : "; " + near));
    }
    if (equals == std::string::npos && i + 1 >= argc) return Invalid(word + " needs a value");
    *found->second = equals == std::string::npos ? argv[++i] : word.substr(equals + 1);
  }
  if (flags.head.empty() || flags.state_dir.empty()) {
    return Invalid(flags.head.empty() ? "missing --head" : "missing --state-dir");
  }
  if (!resources.empty()) {
    absl::StatusOr<Resources> parsed = ParseResourcesFlag(resources);
    if (!parsed.ok())
      return WithHint(Invalid("--" + MessageOf(parsed.status())), HintOf(parsed.status()));
    flags.resources = *std::move(parsed);
  }
  FillDefaults(resources, flags);
  RT_RETURN_IF_ERROR(ReadShare(share, flags));
  RT_RETURN_IF_ERROR(ReadSpan("--disconnect-stop", disconnect_stop, limits::kDrainMax,
                              flags.disconnect_stop));
  RT_RETURN_IF_ERROR(ReadSpan("--dead-man", dead_man, limits::kDrainMax, flags.dead_man));
  RT_RETURN_IF_ERROR(ReadSpan("--away", away, limits::kAwayMost, flags.away));
  RT_RETURN_IF_ERROR(ReadSpan("--loop-hang", loop_hang, limits::kDrainMax, flags.loop_hang));
  if (flags.loop_hang != 0 && flags.loop_hang < 1'000)
    return Invalid("--loop-hang: must be 0 (never) or at least 1s");
  RT_ASSIGN_OR_RETURN(flags.notices, NoticeNames(notices, ThisMachine()));
  RT_RETURN_IF_ERROR(ReadGrace(grace, flags));
  RT_RETURN_IF_ERROR(ReadKeepOutputs(keep_outputs, flags));
  RT_RETURN_IF_ERROR(ReadPeers(peer_port, peer_bandwidth, keep, flags));
  RT_ASSIGN_OR_RETURN(flags.labels, ParseLabels(labels));
  return flags;
}

}  // namespace rt::worker
