// A listening TCP port whose connections reach a TLS server only once they have something to say,
// and that stays open to others whatever some do. gRPC 1.51 stops accepting permanently when it
// runs out of descriptors (CVE-2023-4785), so it never sees the listening socket (docs/adr/0019).
//
// A connection is pending until it has shown who it is. It waits here, at the price of one
// descriptor, until its whole ClientHello has arrived. Then it is handed over, a bounded number at
// a time, and the server has to admit it before the same time-out ends. When there are too many,
// in all or of one address, the oldest that is silent is dropped: an honest client speaks at once.
// Admitted connections count in all and per identity only (call_watch.h), so that a thousand
// workers may share an address.
//
// The kernel receives little ahead of the server, because gRPC lets no call be seen before it has
// parsed all that is there. A duplicate of each descriptor stays here. It tells the end of the
// connection, ends it (CutOff), and shows how much was received without a call that came of it.
// The listener has one thread of its own; its methods are thread-safe unless they say otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/time.h"
#include "common/rpc/peer_connection.h"
#include "common/rpc/port_limits.h"

namespace rt {

// Why a fruitless connection is cut off.
inline constexpr char kSendsNothing[] = "it sends, and no request comes of it";

struct PortListenerOptions {
  std::string address;         // "host:port"; port 0: any. 0.0.0.0 and [::]: all of both families.
  size_t connections_max = 0;  // 0: as many as the limit of open files allows.
  size_t pending_max = limits::kPendingMax;
  size_t handshakes_max = limits::kHandshakesMax;  // Pending connections that were handed over.
  Millis handshake_timeout = limits::kHandshakeMax;
  Millis user_timeout = 0;  // TCP_USER_TIMEOUT, ms; 0: the kernel's.
  Millis shortage_said = limits::kShortageSaid;  // How long fault() names a lack of descriptors.
  // Called by the listener's thread before it accepts: a test makes it stand still.
  std::function<void()> before_accept;
};

// `open` and `pending` are gauges, the others count since the start.
struct PortCounters {
  uint64_t open = 0;
  uint64_t pending = 0;
  uint64_t accepted = 0;
  uint64_t refused = 0;    // For lack of capacity, or because they do not speak TLS.
  uint64_t timed_out = 0;  // Not admitted in time.
  uint64_t cut_off = 0;    // For what they did.
};

class PortListener {
 public:
  // Owns the descriptor from then on. Called by the listener's thread.
  using Take = std::function<void(int fd)>;

  // Binds and listens; nobody is accepted before Start.
  static absl::StatusOr<std::unique_ptr<PortListener>> Listen(const PortListenerOptions& options);
  ~PortListener();  // Stops, and closes all duplicates.
  void Start(Take take);
  // Accepts nobody any more and drops those that were not handed over. Idempotent.
  void Stop();

  int port() const;
  size_t connections_max() const;
  PortCounters counters() const;
  // That connections were closed lately because the process had no descriptor left; empty: none
  // was for `shortage_said`.
  std::string fault() const;
  // Null when the connection is over.
  std::shared_ptr<PeerConnection> Find(const std::string& peer) const;
  // Ends it and logs the reason, at most once a second; an empty reason is not logged.
  void CutOff(PeerConnection& connection, const std::string& why);
  // Very many calls came at once: their memory is returned once they are over.
  void NoteFlood();
  // Instead of CutOff for a connection that sends much of which no request comes. Before Start.
  void OnFruitless(std::function<void(PeerConnection&)> act);
  // How many messages may be arriving on the connection. Before Start.
  void CountBodies(std::function<size_t(PeerConnection&)> count);

 private:
  class Impl;
  explicit PortListener(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rt
