// What the head says of a state directory that it cannot use.
#include "head/state_dir.h"

#include <catch2/catch.hpp>

#include "common/base/status.h"

using namespace rt;

TEST_CASE("state directory: a journal that is no database is an error that says what to do") {
  const absl::Status status =
      AdviseOnDamage(absl::DataLossError("journal /s/journal.db: file is not a database"), "/s");
  CHECK(absl::IsDataLoss(status));
  CHECK(MessageOf(status) == "journal /s/journal.db: file is not a database");
  CHECK(HintOf(status).find("keep a copy of /s") != std::string::npos);
  CHECK(HintOf(status).find("docs/reliability.md") != std::string::npos);
}

TEST_CASE("state directory: advice about damage is given for damage only, and once") {
  CHECK(HintOf(AdviseOnDamage(absl::UnavailableError("x"), "/s")).empty());
  CHECK(AdviseOnDamage(absl::OkStatus(), "/s").ok());
  const absl::Status advised = WithHint(absl::DataLossError("x"), "do this");
  CHECK(HintOf(AdviseOnDamage(advised, "/s")) == "do this");
}
