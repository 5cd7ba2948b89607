// https://ADDR:PORT/metrics, for Prometheus: the head's own certificate; a client certificate of a
// person (viewer, user or admin) is demanded, as everywhere. One request for each connection, one
// thread for each request; a PortListener bounds both, and ends what does not come to its end.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/rpc/identity.h"
#include "common/rpc/port_listener.h"
#include "head/loop/head_loop.h"
#include "head/service/settings.h"

namespace rt {

class MetricsServer {
 public:
  // What the page says of ports beside its own, by their names.
  using PortFacts = std::function<std::map<std::string, PortCounters>()>;
  // `port` 0: any free one.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(HeadLoop& loop,
                                                              const Settings& settings,
                                                              const Credentials& credentials,
                                                              const std::string& host, int port,
                                                              PortFacts ports);
  virtual ~MetricsServer() = default;  // Waits for the calls that are being answered.
  virtual int port() const = 0;
};

}  // namespace rt
