// https://ADDR:PORT/metrics, for Prometheus: the head's own certificate; a client certificate of a
// person (viewer, user or admin) is demanded, as everywhere.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/rpc/identity.h"
#include "head/loop/head_loop.h"
#include "head/service/settings.h"

namespace rt {

class MetricsServer {
 public:
  // `port` 0: any free one.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(HeadLoop& loop,
                                                              const Settings& settings,
                                                              const Credentials& credentials,
                                                              const std::string& host, int port);
  virtual ~MetricsServer() = default;  // Waits for the calls that are being answered.
  virtual int port() const = 0;
};

}  // namespace rt
