// Where a machine of a pool is asked for, one step after the other: in each zone, then the next
// instance type, and at last, when the file says so, on demand instead of spot. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/json.h"

namespace rt {

// One pool of the provider's configuration.
struct Ec2Pool {
  std::string name;
  Json node_config;                         // As the file has it.
  std::vector<std::string> instance_types;  // At least one, the preferred one first.
  std::vector<std::string> subnets;         // Of the file; empty: those of the default network.
  bool is_spot = false;
  bool falls_back = false;        // From spot to on-demand.
  std::string max_price;          // Dollars an hour; empty: up to the on-demand price.
  std::string resources, labels;  // As rt-worker's flags.
};

struct Ec2Subnet {
  std::string id, zone, vpc;
};
struct LadderStep {
  std::string instance_type;
  Ec2Subnet subnet;
  bool is_spot = false;
  friend bool operator==(const LadderStep& a, const LadderStep& b) {
    return a.instance_type == b.instance_type && a.subnet.id == b.subnet.id &&
           a.is_spot == b.is_spot;
  }
};
std::vector<LadderStep> LadderOf(const Ec2Pool& pool, const std::vector<Ec2Subnet>& subnets);
// "spot c4.2xlarge in us-west-2a"
std::string Describe(const LadderStep& step);

// Reads {"node_config": {…}, "spot": {…}, "max_price": 0.2, "resources": "cpu=8", "labels": "k=v"}.
// `path`: of errors, as in run_parameters.h.
absl::StatusOr<Ec2Pool> ReadEc2Pool(const std::string& name, const Json& pool,
                                    const std::string& path);

}  // namespace rt
