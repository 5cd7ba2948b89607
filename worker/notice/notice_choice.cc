#include "worker/notice/notice_choice.h"

#include <algorithm>
#include <cstdlib>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/files.h"
#include "worker/notice/aws.h"
#include "worker/notice/azure.h"
#include "worker/notice/file.h"
#include "worker/notice/gcp.h"

namespace rt::worker {
namespace {

constexpr char kAzureAssetTag[] = "7783-7084-3265-9085-8269-3286-77";

const std::vector<std::string>& KnownNames() {
  static const std::vector<std::string> names = {"aws",   "aws-interruption", "gcp",    "azure",
                                                 "slurm", "kubernetes",       "sigterm"};
  return names;
}

// Instances on Nitro name the vendor; those of the older types, on Xen, only the version.
bool IsOnEc2(const MachineFacts& machine) {
  return machine.dmi("sys_vendor") == "Amazon EC2" ||
         machine.dmi("bios_version").find("amazon") != std::string::npos;
}

std::vector<std::string> Detect(const MachineFacts& machine) {
  std::vector<std::string> names;
  if (IsOnEc2(machine)) names.push_back("aws");
  if (machine.dmi("product_name") == "Google Compute Engine") names.push_back("gcp");
  if (machine.dmi("chassis_asset_tag") == kAzureAssetTag) names.push_back("azure");
  if (machine.has_env("SLURM_JOB_ID")) names.push_back("slurm");
  if (machine.has_env("KUBERNETES_SERVICE_HOST")) names.push_back("kubernetes");
  return names;
}

}  // namespace

MachineFacts ThisMachine() {
  return {[](const std::string& file) {
            auto text = ReadFile("/sys/class/dmi/id/" + file, 4'096);
            return text.ok() ? std::string(Trim(*text)) : "";
          },
          [](const std::string& variable) { return std::getenv(variable.c_str()) != nullptr; }};
}

absl::StatusOr<std::vector<std::string>> NoticeNames(const std::string& text,
                                                     const MachineFacts& machine) {
  if (text == "auto") return Detect(machine);
  std::vector<std::string> names;
  if (text == "none") return names;
  const std::vector<std::string>& known = KnownNames();
  for (const std::string& name : Split(text, ',')) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      const std::string near = DidYouMean(name, known);
      return Invalid("--notices: unknown source '" + name + "'",
                     near.empty() ? "auto, none, or some of " + Join(known, ", ") : near);
    }
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

NoticeSources MakeNoticeSources(const std::vector<std::string>& names, const std::string& url,
                                const std::string& file) {
  NoticeSources sources;
  auto base = [&](const char* usual) { return url.empty() ? std::string(usual) : url; };
  auto on_signal = [&](const std::string& name) {
    auto source = std::make_unique<SignalNotices>(name);
    SignalNotices* known = source.get();
    sources.all.push_back(std::move(source));
    return known;
  };
  for (const std::string& name : names) {
    if (name == "aws" || name == "aws-interruption") {
      sources.all.push_back(std::make_unique<AwsNotices>(base(AwsNotices::kBase), name == "aws"));
    } else if (name == "gcp") {
      sources.all.push_back(std::make_unique<GcpNotices>(base(GcpNotices::kBase)));
    } else if (name == "azure") {
      sources.all.push_back(std::make_unique<AzureNotices>(base(AzureNotices::kBase)));
    } else {
      RT_CHECK(name == "slurm" || name == "kubernetes" || name == "sigterm");
      sources.on_term = on_signal(name);
      if (name == "slurm") sources.on_usr1 = sources.on_term;
    }
  }
  if (!file.empty()) sources.all.push_back(std::make_unique<FileNotices>(file));
  return sources;
}

}  // namespace rt::worker
