#pragma once

#include "warpverbs/device/operations.hpp"

/// The operations that tell a peer of data, which a checked build keeps out of regions with relaxed ordering.
namespace warpverbs::inline v0_2::device {

/// A word that tells of data: it may not pass them.
struct SignalWrite : WriteInline<uint64_t> {
  WARPVERBS_DEVICE RequestError Check(const RegionCheck& check) const {
    return check.Find(
        {.remote = remote, .remote_bytes = sizeof value, .remote_rights = kWritable, .in_order = true});
  }
};

/// Data, and a signal that tells of them: neither may pass the other.
template <class Signal>
struct SignalledWrite : Sequence<Message<WqeOpcode::kRdmaWrite>, Signal> {
  WARPVERBS_DEVICE RequestError Check(const RegionCheck& check) const {
    const RequestError mistake = this->first.Check(check, true);
    return mistake != RequestError::kNone ? mistake : this->second.Check(check);
  }
};

}  // namespace warpverbs::inline v0_2::device
