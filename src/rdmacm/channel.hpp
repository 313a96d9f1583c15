#pragma once

#include <rdma/rdma_cma.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "host/connect/waiting.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/handle.hpp"

namespace warpverbs::host {

using CmId = Handle<rdma_cm_id, rdma_destroy_id>;

/// What a failed step of the connection manager is about.
struct CmStep {
  std::string step, object;

  Error FromErrno(const std::string& remedy) const;  // that errno has now
};

/// An event, acknowledged and with its data copied.
struct CmEvent {
  rdma_cm_event_type kind{};
  int status = 0;
  CmId id{};  ///< a new one, with a request
  std::vector<uint8_t> data{};

  /// What it means, as the reason of an error.
  std::string Reason() const;

  /// Whether a peer is there, and has said no itself.
  bool ByConsumer() const;

  /// Whether a peer may be there in a moment: nobody listens.
  bool NobodyListens() const;
};

/// Where the events of some ids come in. The ids go before it.
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
  bool Next(const Waiting& waiting, CmEvent& event) const;

  /// Waits for an event of one kind.
  ///
  /// @errors  Error: the deadline passed; another event came
  CmEvent Expect(rdma_cm_event_type kind, const Waiting& waiting, const CmStep& step) const;

  /// Lets an id of another channel tell its events here.
  ///
  /// @errors  Error
  void Adopt(const CmId& id, const CmStep& step) const;

 private:
  Handle<rdma_event_channel, rdma_destroy_event_channel> channel_;
};

}  // namespace warpverbs::host
