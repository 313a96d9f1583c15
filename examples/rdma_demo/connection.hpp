// The queue pair to the peer, and its messages.
#pragma once

#include <cstdint>
#include <string>

#include "operation.hpp"
#include "warpverbs/device/memory.hpp"
#include "warpverbs/device/receive_queue.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/exchange.hpp"

namespace rdma_demo {

/// One endpoint, of which this thread posts and completes everything.
class Connection {
 public:
  Connection(const warpverbs::host::Device& device, const warpverbs::host::EndpointConfig& config)
      : endpoint_(device, config) {}

  /// Connects to the peer's, which does the same at the same time. Whatever happened before is over: the
  /// queues are empty, errors and receives forgotten.
  ///
  /// @errors  host::Error
  void Connect(warpverbs::host::Exchange& exchange, warpverbs::host::Deadline deadline);

  /// Hands the NIC memory for one message; none at all will do for a write with immediate.
  void PostReceive(const warpverbs::device::LocalMemory& memory) const;

  /// Waits for what arrives next. Throws OperationFailed.
  warpverbs::device::Received Receive(warpverbs::host::Deadline deadline) const;

  /// Posts an operation and waits until it is done. Throws OperationFailed.
  template <class Operation>
  void Perform(const std::string& what, const Operation& operation,
               warpverbs::host::Deadline deadline) const {
    rdma_demo::Perform(endpoint_, what, operation, deadline);
  }

  std::string Describe() const { return endpoint_.Describe(); }

 private:
  warpverbs::host::Endpoint endpoint_;
};

}  // namespace rdma_demo
