// Posts one operation from the calling thread and waits for it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/send_queue.hpp"
#include "warpverbs/device/status.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/exchange.hpp"
#include "warpverbs/host/queue_error.hpp"

namespace rdma_demo {

/// The failure of an operation: a sentence, and the status.
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
/// @param step  name of the operation: "send 4 bytes"
inline void CheckOperation(const warpverbs::host::Endpoint& endpoint, const std::string& step,
                           const warpverbs::device::Status& status) {
  using warpverbs::device::Code;
  if (status.ok()) return;
  const bool host_knows_more = status.code == Code::kError || status.code == Code::kAborted;
  const std::optional<warpverbs::host::QueueError> error =
      host_knows_more ? endpoint.LastError() : std::nullopt;
  const std::string reason =
      error ? ". " + error->Describe()
            : ": " + warpverbs::host::Describe(status) + ". See the output of the other side.";
  throw OperationFailed("Cannot " + step + reason, status);
}

/// Returns the limit of a wait: a deadline, or a failure of the device or the port.
inline warpverbs::device::WaitLimit Until(const warpverbs::host::Endpoint& endpoint,
                                          warpverbs::host::Deadline deadline) {
  const auto time = std::chrono::nanoseconds(deadline.time_since_epoch());
  return {.deadline_ns = static_cast<uint64_t>(time.count()), .abort = endpoint.AbortWord()};
}

/// Posts an operation and waits until it is done. Throws OperationFailed.
///
/// @pre  no other thread posts to the endpoint
template <class Operation>
void Perform(const warpverbs::host::Endpoint& endpoint, const std::string& step, const Operation& operation,
             warpverbs::host::Deadline deadline) {
  using namespace warpverbs;
  const device::WaitLimit limit = Until(endpoint, deadline);
  device::SendQueue<arch::Cpu, device::Exclusive> queue(endpoint.View());
  const device::Posted posted = queue.Post(operation, limit);
  const device::Status status = posted.status.ok() ? queue.Wait(posted.ticket, limit) : posted.status;
  CheckOperation(endpoint, step, status);
}

}  // namespace rdma_demo
