#pragma once

#include <rdma/rdma_cma.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "host/connect/deadline_wait.hpp"
#include "host/device/handle.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {

using CmId = Handle<rdma_cm_id, rdma_destroy_id>;

/// A step of the connection manager, as its error names it.
struct CmStep {
  std::string step, object;

  Error FromErrno(const std::string& remedy) const;  // makes an error of the current errno
};

/// An acknowledged event with a copy of its data.
struct CmEvent {
  rdma_cm_event_type kind{};
  int status = 0;
  CmId id{};  ///< new id of a connection request
  std::vector<uint8_t> data{};

  /// Describes the event, as the reason of an error.
  std::string Reason() const;

  /// Returns whether the peer itself rejected the connection.
  bool IsRejectedByPeer() const;

  /// Returns whether nobody listens at the address yet, so that a retry makes sense.
  bool NobodyListens() const;
};

/// A channel that receives the events of its ids. Destroy the ids first.
class CmChannel {
 public:
  /// @errors  Error: the kernel has no connection manager
  CmChannel();

  /// @errors  Error
  CmId MakeId() const;

  /// Waits for the next event.
  ///
  /// @return  false: the deadline passed
  /// @errors  Error
  bool Next(const DeadlineWait& waiting, CmEvent& event) const;

  /// Waits for an event of one kind.
  ///
  /// @errors  Error: the deadline passed; another event came
  CmEvent Expect(rdma_cm_event_type kind, const DeadlineWait& waiting, const CmStep& step) const;

  /// Moves an id of another channel to this one.
  ///
  /// @errors  Error
  void Migrate(const CmId& id, const CmStep& step) const;

 private:
  Handle<rdma_event_channel, rdma_destroy_event_channel> channel_;
};

}  // namespace warpverbs::inline v0_2::host
