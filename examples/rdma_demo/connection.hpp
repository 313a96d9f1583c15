// The connection to the peer: one queue pair and its messages.
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

/// One endpoint. Only one thread posts to it and takes its completions.
class Connection {
 public:
  Connection(const warpverbs::host::Device& device, const warpverbs::host::EndpointConfig& config)
      : endpoint_(device, config) {}

  /// Resets the endpoint and connects it to the peer's, which does the same at the same time.
  ///
  /// @errors  host::Error
  void Connect(warpverbs::host::Exchange& exchange, warpverbs::host::Deadline deadline);

  /// Posts a receive for one message. A write with immediate needs no memory.
  void PostReceive(const warpverbs::device::LocalMemory& memory) const;

  /// Waits for the next message or immediate data. Throws OperationFailed.
  warpverbs::device::Received Receive(warpverbs::host::Deadline deadline) const;

  /// Posts an operation and waits until it is done. Throws OperationFailed.
  template <class Operation>
  void Perform(const std::string& step, const Operation& operation,
               warpverbs::host::Deadline deadline) const {
    rdma_demo::Perform(endpoint_, step, operation, deadline);
  }

  std::string Describe() const { return endpoint_.Describe(); }

 private:
  warpverbs::host::Endpoint endpoint_;
};

}  // namespace rdma_demo
