// Posts one operation from this thread and waits for it.
#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/send_queue.hpp"
#include "warpverbs/device/status.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/exchange.hpp"

namespace rdma_demo {

/// What went wrong with an operation, as a sentence, and the status that says it.
class OperationFailed : public std::runtime_error {
 public:
  OperationFailed(const std::string& sentence, const warpverbs::device::Status& status)
      : std::runtime_error(sentence), status_(status) {}
  const warpverbs::device::Status& status() const { return status_; }

 private:
  warpverbs::device::Status status_;
};

/// Throws OperationFailed unless an operation has succeeded.
///
/// @param what  "send 4 bytes"
void CheckOperation(const warpverbs::host::Endpoint& endpoint, const std::string& what,
                    const warpverbs::device::Status& status);

/// Waits until then, or until the device or the port has failed.
inline warpverbs::device::WaitLimit Until(const warpverbs::host::Endpoint& endpoint,
                                          warpverbs::host::Deadline deadline) {
  const auto time = std::chrono::nanoseconds(deadline.time_since_epoch());
  return {.deadline_ns = static_cast<uint64_t>(time.count()), .abort = endpoint.AbortWord()};
}

/// Posts an operation and waits until it is done. Throws OperationFailed.
///
/// @pre  nobody else posts to the endpoint
template <class Operation>
void Perform(const warpverbs::host::Endpoint& endpoint, const std::string& what, const Operation& operation,
             warpverbs::host::Deadline deadline) {
  using namespace warpverbs;
  const device::WaitLimit limit = Until(endpoint, deadline);
  device::SendQueue<arch::Cpu, device::Exclusive> queue(endpoint.View());
  const device::Posted posted = queue.Post(operation, limit);
  const device::Status status = posted.status.ok() ? queue.Wait(posted.ticket, limit) : posted.status;
  queue.Save();
  CheckOperation(endpoint, what, status);
}

}  // namespace rdma_demo
