#include "head/options.h"

#include <charconv>
#include <filesystem>
#include <map>

#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {

const char* const kHeadHelp =
    R"(rt-head: the daemon that holds the state of all experiments of a cluster.

Usage: rt-head --state-dir DIR [options]

  --state-dir DIR        directory of the journal, the blobs, the CA, admin/, pid and address
  --listen ADDR:PORT     where to listen (default: 127.0.0.1 at the previous port, or any free one)
  --advertise ADDR:PORT  address that workers and clients use (default: where it listens)
  --metrics ADDR:PORT    serve metrics to Prometheus at https://ADDR:PORT/metrics; the scraper
                         needs a certificate of role viewer
  --config FILE          JSON: cluster_name, results_root, results_roots, provider, pools,
                         autoscaling, journal, checkpoint_store
  --results-roots DIR,…  directories that results_dir of an experiment may name, besides
                         results_root (default: DIR/results); a head that starts workers itself
                         accepts every directory
  --standby              follow the leading head, and take over when it ends; needs a shipped
                         journal, or one in PostgreSQL, and the leader's configuration
  --peers ADDR:PORT,…    addresses of the cluster's other heads, for workers and clients
  --restore-from URL     create DIR from the journal that was shipped to s3://bucket/prefix or
                         /dir, and exit; DIR must be new
  --key-file FILE        key_file of that journal, with --restore-from
  --restored             record that DIR was restored from an older copy (a backup, a snapshot of
                         the disk), and exit: the next start uses an epoch above all known ones
  --lifeline FD          stop when this file descriptor reaches its end of file
  --failpoints           list the failpoints for RT_FAILPOINTS=NAME=ACTION[@K],… (tests)
  --help                 print this help

Example:
  rt-head --state-dir ~/.rt/clusters/demo/head --listen 0.0.0.0:7070 --advertise head.lan:7070
)";

absl::StatusOr<HostPort> ParseHostPort(const std::string& text) {
  HostPort address;
  size_t colon = text.rfind(':');
  bool split = colon != std::string::npos && colon > 0;
  if (split) {
    address.host = text.substr(0, colon);
    const char* end = text.data() + text.size();
    auto [stop, error] = std::from_chars(text.data() + colon + 1, end, address.port);
    split = error == std::errc() && stop == end && address.port >= 0 && address.port <= 65'535;
  }
  if (!split) return Invalid("'" + text + "' is not ADDR:PORT", "such as 0.0.0.0:7070");
  return address;
}

std::string ToString(const HostPort& address) {
  return address.host + ":" + std::to_string(address.port);
}

namespace {

absl::Status CheckOptions(HeadOptions& options, const std::string& lifeline) {
  for (const std::string& root : options.results_roots)
    if (!root.starts_with('/')) return Invalid("--results-roots: '" + root + "' is not absolute");
  if (options.help || options.failpoints) return absl::OkStatus();
  if (options.state_dir.empty()) return Invalid("missing --state-dir");
  options.state_dir = std::filesystem::absolute(options.state_dir).lexically_normal().string();
  while (options.state_dir.size() > 1 && options.state_dir.back() == '/')
    options.state_dir.pop_back();
  if (!options.listen.empty()) RT_RETURN_IF_ERROR(ParseHostPort(options.listen).status());
  if (!options.advertise.empty()) RT_RETURN_IF_ERROR(ParseHostPort(options.advertise).status());
  if (!options.metrics.empty()) RT_RETURN_IF_ERROR(ParseHostPort(options.metrics).status());
  if (!options.peers.empty()) {
    for (const std::string& peer : Split(options.peers, ','))
      RT_RETURN_IF_ERROR(Annotate(ParseHostPort(peer).status(), "--peers"));
  }
  if (options.restore_from.empty() != options.key_file.empty())
    return Invalid("--restore-from and --key-file must be given together");
  if (lifeline.empty()) return absl::OkStatus();
  const char* end = lifeline.data() + lifeline.size();
  auto [stop, error] = std::from_chars(lifeline.data(), end, options.lifeline);
  if (error != std::errc() || stop != end || options.lifeline < 0)
    return Invalid("--lifeline takes a descriptor's number, not '" + lifeline + "'");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<HeadOptions> ParseHeadOptions(const std::vector<std::string>& arguments) {
  HeadOptions options;
  std::string lifeline, roots;
  const std::map<std::string, std::string*> values = {{"--state-dir", &options.state_dir},
                                                      {"--listen", &options.listen},
                                                      {"--advertise", &options.advertise},
                                                      {"--config", &options.config},
                                                      {"--metrics", &options.metrics},
                                                      {"--restore-from", &options.restore_from},
                                                      {"--key-file", &options.key_file},
                                                      {"--peers", &options.peers},
                                                      {"--results-roots", &roots},
                                                      {"--lifeline", &lifeline}};
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string name = arguments[i];
    if (name == "--help" || name == "-h") {
      options.help = true;
      continue;
    }
    if (name == "--standby") {
      options.standby = true;
      continue;
    }
    if (name == "--restored") {
      options.restored = true;
      continue;
    }
    if (name == "--failpoints") {
      options.failpoints = true;
      continue;
    }
    size_t equals = name.find('=');
    bool attached = equals != std::string::npos;
    std::string value = attached ? name.substr(equals + 1) : "";
    if (attached) name.resize(equals);
    auto found = values.find(name);
    if (found == values.end()) {
      std::vector<std::string> known;
      for (const auto& [flag, place] : values) known.push_back(flag);
      return Invalid("unknown argument '" + name + "'", DidYouMean(name, known));
    }
    if (!attached) {
      if (++i == arguments.size()) return Invalid(name + " needs a value");
      value = arguments[i];
    }
    *found->second = value;
  }
  if (!roots.empty()) options.results_roots = Split(roots, ',');
  RT_RETURN_IF_ERROR(CheckOptions(options, lifeline));
  return options;
}

}  // namespace rt
