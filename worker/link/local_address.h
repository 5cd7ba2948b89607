// The address of this machine that the head's machine sees it under: what `rt node list` and the
// results call the node's ip. No packet is sent for it.
#pragma once

#include <string>

namespace rt::worker {

// `heads` is "host:port", or several with commas between: the first counts. Empty when the name
// cannot be resolved or there is no route.
std::string LocalAddressTowards(const std::string& heads);

// The network interface that has the address, such as "eth0"; empty when none has.
std::string InterfaceWith(const std::string& address);

}  // namespace rt::worker
