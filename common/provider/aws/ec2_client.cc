#include "common/provider/aws/ec2_client.h"

#include <algorithm>
#include <cstdlib>

#include "common/aws/sigv4.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/provider/aws/ec2_error.h"
#include "common/provider/node_provider.h"
#include "common/run/clock.h"
#include "common/run/random.h"

namespace rt {
namespace {

constexpr char kContentType[] = "application/x-www-form-urlencoded; charset=utf-8";
constexpr Millis kSkewMax = 120'000;  // EC2 takes 5 minutes.

std::string FormOf(const std::string& action, const std::string& version,
                   const Ec2Parameters& parameters) {
  std::string form = "Action=" + PercentEncode(action) + "&Version=" + version;
  for (const auto& [name, value] : parameters)
    form += "&" + PercentEncode(name) + "=" + PercentEncode(value);
  return form;
}

struct ErrorText {
  std::string code, message;
};
// <Response><Errors><Error>… as EC2 has it, or <ErrorResponse><Error>… as other services do.
ErrorText ErrorIn(const HttpAnswer& answer) {
  const absl::StatusOr<XmlNode> root = ParseXml(answer.body);
  if (!root.ok()) return {};
  for (const char* path : {"Errors/Error", "Error"})
    if (const XmlNode* error = root->Find(path))
      return {error->Text("Code"), error->Text("Message")};
  return {};
}

bool MayBeRepeated(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace

Ec2Client::Ec2Client(HttpClient& http, CredentialChain& credentials, AwsEndpoint endpoint,
                     Options options)
    : http_(http), credentials_(credentials),
      endpoint_(std::move(endpoint)), options_{std::move(options.api), options.timeout,
                                               options.clock ? std::move(options.clock) : WallClock,
                                               options.sleep ? std::move(options.sleep) : SleepFor},
      rng_(std::stoull(RandomHex(8), nullptr, 16)) {}

std::string Ec2Client::SignedRegion() const {
  if (!options_.api.is_global) return endpoint_.region;
  if (endpoint_.region.starts_with("cn-")) return "cn-north-1";
  return endpoint_.region.starts_with("us-gov-") ? "us-gov-west-1" : "us-east-1";
}

std::string Ec2Client::Url() const {
  if (!endpoint_.url.empty()) return endpoint_.url;
  const std::string region = SignedRegion();
  const std::string domain = region.starts_with("cn-") ? ".amazonaws.com.cn" : ".amazonaws.com";
  const bool is_plain = options_.api.is_global && region == "us-east-1";
  const bool is_gov = options_.api.is_global && region == "us-gov-west-1";
  return "https://" + options_.api.service +
         (is_plain ? ""
          : is_gov ? ".us-gov"
                   : "." + region) +
         domain;
}

absl::StatusOr<HttpAnswer> Ec2Client::Send(const std::string& body) {
  Millis now = options_.clock();
  const absl::StatusOr<AwsCredentials> credentials = credentials_.Get(now);
  if (!credentials.ok()) {
    // Places that answer over the network may do so later; the others need a person.
    if (MayBeRepeated(credentials.status())) return credentials.status();
    return MakeProviderError(ProviderError::kBadConfiguration, MessageOf(credentials.status()),
                             HintOf(credentials.status()));
  }
  {
    std::lock_guard lock(mutex_);
    now += skew_;
  }
  const std::string url = Url();
  SignedRequest request{.method = "POST",
                        .host = HostOfUrl(url),
                        .headers = {{"Content-Type", kContentType}},
                        .payload_hash = Sha256Hex(body)};
  return http_.Do(
      {.method = "POST",
       .url = url + "/",
       .headers = SignRequest(
           request, {.region = SignedRegion(), .service = options_.api.service, .at = now},
           *credentials),
       .body = body,
       .timeout = options_.timeout,
       .answer_bytes_max = static_cast<Bytes>(limits::kXmlBytesMax)});
}

// Whether something was changed that may make the same call succeed.
bool Ec2Client::Heal(const std::string& code, const HttpAnswer& answer) {
  const Millis theirs = ParseHttpDate(answer.Header("date"));
  std::lock_guard lock(mutex_);
  const Millis skew = theirs == 0 ? skew_ : theirs - options_.clock();
  const bool is_refused = answer.status == 401 || answer.status == 403 ||
                          code == "RequestExpired" || code == "AuthFailure" ||
                          code == "SignatureDoesNotMatch";
  if (is_refused && std::abs(skew - skew_) > kSkewMax) {
    RT_LOG(kWarning) << "this machine's clock is " << -skew / 1000
                     << " s ahead of EC2's: requests are signed with its time";
    skew_ = skew;
    return true;
  }
  if (code != "ExpiredToken" && code != "RequestExpired") return false;
  credentials_.Expire();
  return true;
}

void Ec2Client::Wait(int failures) {
  const Millis bound = std::min(limits::kEc2BackoffMax, limits::kEc2BackoffFirst << failures);
  Millis wait = 0;
  {
    std::lock_guard lock(mutex_);
    wait = static_cast<Millis>(rng_.Below(static_cast<uint64_t>(bound)));
  }
  options_.sleep(wait);
}

absl::StatusOr<XmlNode> Ec2Client::Call(const std::string& action,
                                        const Ec2Parameters& parameters) {
  const std::string body = FormOf(action, options_.api.version, parameters);
  const std::string what = options_.api.name + " " + action;
  const Millis begin = SteadyClock();
  bool was_healed = false;
  for (int failures = 0;; ++failures) {
    absl::StatusOr<HttpAnswer> answer = Send(body);
    absl::Status status;
    if (!answer.ok()) {
      status = Annotate(answer.status(), what);
    } else if (answer->status == 200) {
      absl::StatusOr<XmlNode> root = ParseXml(answer->body);
      if (root.ok()) return root;
      // It was carried out; what it answered is asked for again.
      status = absl::UnavailableError(ToAbsl(what + ": " + MessageOf(root.status())));
    } else {
      const ErrorText error = ErrorIn(*answer);
      if (!was_healed && Heal(error.code, *answer)) {
        was_healed = true;
        continue;
      }
      status = MakeEc2Error(what, answer->status, error.code, error.message);
    }
    const bool is_last =
        failures + 1 >= limits::kEc2CallsMax || SteadyClock() - begin > limits::kEc2RepeatMax;
    if (!MayBeRepeated(status) || is_last) return status;
    Wait(failures);
  }
}

absl::StatusOr<std::vector<XmlNode>> Ec2Client::Pages(const std::string& action,
                                                      const std::string& set,
                                                      Ec2Parameters parameters) {
  std::vector<XmlNode> items;
  for (int pages = 1;; ++pages) {
    RT_ASSIGN_OR_RETURN(XmlNode root, Call(action, parameters));
    for (const XmlNode& item : root.Items(set)) items.push_back(item);
    const std::string next = root.Text("nextToken");
    if (next.empty()) return items;
    if (pages >= limits::kEc2PagesMax)
      return absl::OutOfRangeError(ToAbsl("EC2 " + action + ": the list has no end"));
    std::erase_if(parameters, [](const auto& one) { return one.first == "NextToken"; });
    parameters.emplace_back("NextToken", next);
  }
}

void AddEc2Filter(Ec2Parameters& parameters, const std::string& name,
                  const std::vector<std::string>& values) {
  int number = 1;
  for (const auto& [key, value] : parameters)
    if (key.starts_with("Filter.") && key.ends_with(".Name")) ++number;
  const std::string filter = "Filter." + std::to_string(number) + ".";
  parameters.emplace_back(filter + "Name", name);
  for (size_t i = 0; i < values.size(); ++i)
    parameters.emplace_back(filter + "Value." + std::to_string(i + 1), values[i]);
}

}  // namespace rt
