// The bounds of what is asked of AWS and of what it answers, each with its reason.
#pragma once

#include <cstddef>

#include "common/base/time.h"

namespace rt::limits {

// An answer with 1 000 instances, the most that a page of DescribeInstances has, takes some 8 MB.
inline constexpr size_t kXmlBytesMax = 32u << 20;
// Such a page has some 200 elements for each instance.
inline constexpr size_t kXmlElementsMax = 500'000;
// The deepest answer that we read has 11 levels.
inline constexpr int kXmlDepthMax = 32;

// One call of EC2. RunInstances answers within some ten seconds even when it is slow.
inline constexpr Millis kEc2Timeout = 20'000;
// Calls of one kind until it succeeds, and the time after which none is repeated: a thread of the
// head's io pool waits meanwhile. The reconciler asks again later.
inline constexpr int kEc2CallsMax = 5;
inline constexpr Millis kEc2RepeatMax = 45'000;
// Between two of them, with full jitter: EC2's buckets are refilled with some 2 to 20 tokens a
// second.
inline constexpr Millis kEc2BackoffFirst = 400;
inline constexpr Millis kEc2BackoffMax = 8'000;
// Pages of one list: at 1 000 instances each, more than a cluster may have.
inline constexpr int kEc2PagesMax = 200;
// RunInstances under way at once: its bucket is refilled with 2 requests a second, and holds some
// more. Each machine is a call of its own, because its tag and its token are.
inline constexpr size_t kEc2CreatesAtOnce = 8;
// Machines of one TerminateInstances. EC2 advises against more than 1 000.
inline constexpr size_t kEc2TerminatesAtOnce = 100;
// After a call, until all of EC2's lists show what it did. AWS names no bound; minutes were seen
// in outages, and seconds are usual.
inline constexpr Millis kEc2ListLag = 60'000;
// What EC2 takes as user data, before base64.
inline constexpr size_t kEc2UserDataMax = 16u << 10;
// Zones times instance types times markets of one pool: each may be asked once per machine.
inline constexpr size_t kEc2RungsMax = 60;
// Until EC2 knows an instance profile that IAM has made: some ten seconds are usual.
inline constexpr Millis kEc2ProfileMax = 90'000;
// Until the machine of a head runs and has an address, and then until its sshd lets us in: images
// with drivers boot within two minutes.
inline constexpr Millis kEc2BootMax = 300'000;
// Port 22 of a cluster stays open for so long after a client that works on its head was killed: a
// client renews it four times as often, and clocks of two machines may differ by minutes.
inline constexpr Millis kEc2SshOpen = 1'200'000;
// A head that no worker has heard for so long does not come back by itself (it restarts in seconds,
// and on another machine in minutes): its workers end what they run and themselves.
inline constexpr Millis kEc2DeadMan = 1'800'000;
// Setup commands of a pool: they are sent whole to each of its machines.
inline constexpr size_t kSetupCommandsMax = 256;
inline constexpr size_t kSetupCommandsBytesMax = 256u << 10;
// Until all machines of a cluster that ends are gone or going.
inline constexpr Millis kEc2EndMax = 180'000;

}  // namespace rt::limits
