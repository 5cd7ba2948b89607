// The head's gRPC server with all its services. Owned by main; everything in Parts outlives it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/time.h"
#include "common/cas/blob_store.h"
#include "common/rpc/identity.h"
#include "common/rpc/port_listener.h"
#include "head/journal/journal.h"
#include "head/service/settings.h"

namespace rt {

class LogHub;
class Waits;

class HeadServer {
 public:
  struct Parts {
    HeadLoop& loop;
    Journal& journal;
    BlobStore& blobs;
    Io io;
    Settings& settings;
  };
  // Listens at "host:port" (port 0: any). `end_head` is called when a Shutdown was carried out.
  static absl::StatusOr<std::unique_ptr<HeadServer>> Start(const Parts& parts,
                                                           const Credentials& credentials,
                                                           const std::string& listen,
                                                           std::function<void()> end_head);
  virtual ~HeadServer() = default;
  virtual int port() const = 0;
  virtual PortCounters port_counters() const = 0;
  virtual std::string port_fault() const = 0;  // As PortListener::fault.
  virtual Waits& waits() = 0;
  virtual LogHub& logs() = 0;
  // Refuses new calls, lets running ones end for up to `grace` ms, then cancels them and closes the
  // connections, which otherwise idle clients keep open until they notice. Idempotent.
  virtual void Stop(Millis grace) = 0;
};

}  // namespace rt
