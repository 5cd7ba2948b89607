// `rt doctor`: the cluster.
#include <cmath>
#include <cstdio>
#include <ctime>

#include "cli/client/local_cluster.h"
#include "cli/client/nouns.h"
#include "cli/doctor.h"
#include "cli/render/nouns.h"
#include "cli/render/spans.h"
#include "common/base/status.h"
#include "common/rpc/identity.h"
#include "common/run/clock.h"

namespace rt {
namespace {

using Grade = Finding::Grade;

constexpr double kClockWarnSeconds = 1, kClockFailSeconds = 60;
constexpr double kExpiryWarnSeconds = 14 * 86'400;

// Of the time that FormatTime writes.
double SecondsOf(const std::string& time) {
  std::tm parts{};
  const char* rest = strptime(time.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  double fraction = rest != nullptr && *rest == '.' ? std::atof(rest) : 0;
  return static_cast<double>(timegm(&parts)) + fraction;
}

Finding Version(const std::string& theirs) {
  if (theirs == RT_VERSION) return {"versions", Grade::kOk, "the head is rt " + theirs, ""};
  return {"versions", Grade::kWarn, "the head is rt " + theirs + ", this is rt " RT_VERSION,
          "install the same version here as on the cluster"};
}

Finding Journal(const Json& status) {
  const Json* journal = status.Find("journal");
  int64_t behind = journal == nullptr ? 0 : journal->GetInt("seq") - journal->GetInt("durable_seq");
  if (behind > 10'000)
    return {"journal", Grade::kWarn, std::to_string(behind) + " events wait for the head's disk",
            "the disk below the head's state directory is slow or full"};
  return {"journal", Grade::kOk, "all events are on the head's disk", ""};
}

// What the head says, and how its clock compares with ours.
absl::StatusOr<Json> AskHead(HeadClient& client, std::vector<Finding>& findings) {
  double before = static_cast<double>(WallClock()) / 1000;
  RT_ASSIGN_OR_RETURN(Json status, client.Ask<v1::ClusterService>(
                                       &v1::ClusterService::Stub::Status, v1::Empty()));
  double after = static_cast<double>(WallClock()) / 1000;
  const Json* cluster = status.Find("cluster");
  if (cluster == nullptr) return absl::InternalError("the head's answer has no cluster");
  char text[64];
  std::snprintf(text, sizeof text, " answers in %.0f ms", (after - before) * 1000);
  findings.push_back(JudgePort(*cluster, client.context().address + text));
  findings.push_back(Version(cluster->GetString("version")));
  double theirs = SecondsOf(cluster->GetString("started_at")) + cluster->GetDouble("uptime_s");
  findings.push_back(JudgeClock(theirs - (before + after) / 2, after - before));
  findings.push_back(Journal(status));
  findings.push_back(JudgeHistory(status));
  findings.push_back(JudgeStore(status));
  return status;
}

absl::Status ExamineNodes(HeadClient& client, const std::string& version,
                          std::vector<Finding>& findings) {
  RT_ASSIGN_OR_RETURN(Json nodes, ListNodes(client));
  size_t there = 0, well = 0;
  for (const Json& node : nodes["items"].array()) {
    if (node.GetString("state") == "GONE") continue;
    ++there;
    Finding finding = JudgeNode(node, version);
    if (finding.grade == Grade::kOk) ++well;
    else findings.push_back(std::move(finding));
  }
  if (there == 0)
    findings.push_back({"nodes", Grade::kWarn, "no node has joined the cluster",
                        "rt token create --role worker, then start rt-worker with it"});
  else if (well > 0)
    findings.push_back({"nodes", Grade::kOk,
                        std::to_string(well) + " of " + std::to_string(there) +
                            " nodes are READY, with healthy gpus",
                        ""});
  return absl::OkStatus();
}

}  // namespace

Finding JudgeClock(double ahead_s, double round_trip_s) {
  double off = std::max(0.0, std::abs(ahead_s) - round_trip_s / 2);
  char text[96];
  std::snprintf(text, sizeof text, "the head's clock is %.1f s %s this one", std::abs(ahead_s),
                ahead_s < 0 ? "behind" : "ahead of");
  const char* hint = "run an NTP client (chrony, systemd-timesyncd) on both machines";
  if (off > kClockFailSeconds)
    return {"clocks", Grade::kFail, std::string(text) + ": certificates may seem invalid", hint};
  if (off > kClockWarnSeconds) return {"clocks", Grade::kWarn, text, hint};
  return {"clocks", Grade::kOk, "this clock and the head's agree within a second", ""};
}

Finding JudgeCertificate(const std::string& whose, double seconds_left) {
  std::string left = DurationText(std::abs(seconds_left));
  const char* hint = "ask an admin for a new token (rt token create --role user), and add the "
                     "context again";
  if (seconds_left < 0)
    return {"certificates", Grade::kFail, whose + " expired " + left + " ago", hint};
  if (seconds_left < kExpiryWarnSeconds)
    return {"certificates", Grade::kWarn, whose + " expires in " + left, hint};
  return {"certificates", Grade::kOk, whose + " is valid for " + left, ""};
}

Finding JudgeNode(const Json& node, const std::string& version) {
  std::string name = node.GetString("name"), state = node.GetString("state");
  std::string reason = node.GetString("reason");
  std::string check = "node " + name;
  if (state == "LOST")
    return {check, Grade::kFail, "LOST" + (reason.empty() ? reason : ": " + reason),
            "start its worker again (rt node why " + name + "); if it will not come back: "
            "rt node forget " + name};
  if (state != "READY")
    return {check, Grade::kWarn, state + (reason.empty() ? reason : ": " + reason),
            "rt node why " + name};
  if (!reason.empty()) return {check, Grade::kWarn, state + ": " + reason, "rt node why " + name};
  if (std::string theirs = node.GetString("version"); !theirs.empty() && theirs != version)
    return {check, Grade::kWarn, "is rt " + theirs + ", the head is rt " + version,
            "install the same version, and restart its daemon: its trials continue"};
  if (const Json* gpus = node.Find("gpus"); gpus != nullptr && gpus->is_array())
    for (const Json& gpu : gpus->array())
      if (gpu.GetString("state", "READY") != "READY")
        return {check, Grade::kWarn, "gpu " + gpu.GetString("uuid") + " is " +
                                         gpu.GetString("state"),
                "nvidia-smi -q -i " + gpu.GetString("uuid")};
  return {check, Grade::kOk, "READY", ""};
}

Finding JudgePort(const Json& cluster, const std::string& answered) {
  const std::string problem = cluster.GetString("port_problem");
  if (problem.empty()) return {"port", Grade::kOk, answered, ""};
  return {"port", Grade::kFail, answered + ", but " + problem,
          "see what holds them: ls -l /proc/PID/fd on the head's machine"};
}

Finding JudgeStore(const Json& status) {
  const char* hint = "raise checkpoint_store/quota in cluster.yaml (then rt up), make room on its "
                     "disk, or keep fewer checkpoints (CheckpointConfig num_to_keep)";
  const Json* store = status.Find("checkpoint_store");
  const std::string text = StoreText(status);
  if (store != nullptr && store->GetBool("refused"))
    return {"checkpoint store", Grade::kFail, text, hint};
  if (store != nullptr && IsNearlyFull(*store))
    return {"checkpoint store", Grade::kWarn, text, hint};
  return {"checkpoint store", Grade::kOk, text.empty() ? "accepts new checkpoints" : text, ""};
}

Finding JudgeHistory(const Json& status) {
  const std::string text = HistoryText(status);
  if (text.empty()) return {"history", Grade::kOk, "the head's history is complete", ""};
  const Json* cluster = status.Find("cluster");
  const Json* other = cluster->Find("other_head");
  if (other != nullptr && other->is_object())
    return {"history", Grade::kFail, text,
            "end it if another head leads; if its state was restored from an older copy: "
            "rt-head --state-dir DIR --restored, and start it again"};
  return {"history", Grade::kWarn, text,
          "what was decided in between is gone: submit again what is missing in rt exp list"};
}

std::vector<Finding> ExamineCluster(const Home& home, const std::string& name) {
  std::vector<Finding> findings;
  absl::StatusOr<Context> context = home.Load(name);
  if (context.ok()) {
    absl::StatusOr<double> own = CertificateSecondsLeft(context->credentials.own.certificate_pem);
    absl::StatusOr<double> ca = CertificateSecondsLeft(context->credentials.ca_pem);
    if (own.ok()) findings.push_back(JudgeCertificate("your certificate of '" + name + "'", *own));
    if (ca.ok() && *ca < kExpiryWarnSeconds)
      findings.push_back(JudgeCertificate("the certificate of the cluster's CA", *ca));
  }
  absl::Status status = context.status();
  if (status.ok()) {
    absl::StatusOr<std::unique_ptr<HeadClient>> client = ConnectTo(home, name);
    status = client.status();
    if (status.ok()) {
      absl::StatusOr<Json> head = AskHead(**client, findings);
      status = head.status();
      if (status.ok())
        status = ExamineNodes(**client, (*head)["cluster"].GetString("version"), findings);
    }
  }
  if (!status.ok())
    findings.push_back({"port", Grade::kFail, MessageOf(status),
                        HintOf(status).empty()
                            ? "is the head up, and its port open in every firewall between?"
                            : HintOf(status)});
  return findings;
}

}  // namespace rt
