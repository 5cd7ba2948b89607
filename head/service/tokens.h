// Join tokens and what they turn into: docs/security.md. Keys are made and signed on the io pool.
#pragma once

#include <string>

#include "head/service/settings.h"

namespace rt {

struct TokenRequest {
  std::string role;  // worker, user, viewer, admin
  Millis ttl = 0;    // 0: one hour.
  std::string pool = {};
  std::string name = {};  // Of the person or node; empty: a person's is made from the token's id.
  uint64_t machine = 0;   // That joins with it; 0: none that the head has asked for.
};
struct NewToken {
  std::string id;
  std::string name;  // That whoever joins with it gets; empty: a node chooses.
  std::string text;  // Shown once.
};
using TokenDone = std::function<void(absl::StatusOr<NewToken>)>;
void CreateToken(HeadLoop& loop, const Io& io, const Settings& settings,
                 const TokenRequest& request, TokenDone done);

struct JoinAsk {
  std::string token;  // Its id, from the caller's certificate.
  std::string csr_pem;
  std::string name;  // May be empty. Refused when the token is bound to another one.
};
struct Joined {
  std::string certificate_pem;
  NodeId node;  // 0 for people.
};
using JoinDone = std::function<void(absl::StatusOr<Joined>)>;
void RedeemToken(HeadLoop& loop, const Io& io, const Settings& settings, const JoinAsk& ask,
                 JoinDone done);

}  // namespace rt
