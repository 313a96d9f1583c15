#include "warpverbs/host/queue_error.hpp"

#include "warpverbs/mlx5/syndrome.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

constexpr const char* kConnectFirst = "Call Connect() first";
constexpr const char* kLookAtPeer = "Look for an error at the peer and in the kernel log (dmesg)";

const char* ReceiveRemedy(mlx5::Syndrome syndrome) {
  switch (syndrome) {
    case mlx5::Syndrome::kLocalLength:
      return "Post receives that are as long as the peer's longest message";
    case mlx5::Syndrome::kLocalProtection:
      return "Check the receive's lkey, that the buffer is in its region, and that the region has "
             "local_write";
    case mlx5::Syndrome::kFlushed:
      return "No send or receive failed before it: look for an error at the peer and in the kernel log "
             "(dmesg)";
    default:
      return kLookAtPeer;
  }
}

const char* Remedy(mlx5::Syndrome syndrome) {
  switch (syndrome) {
    case mlx5::Syndrome::kLocalLength:
      return "Compare the message's length with the device's longest message and with the peer's receive";
    case mlx5::Syndrome::kLocalQpOperation:
      return "Check that the device has the operation, and that nothing else writes to the send queue";
    case mlx5::Syndrome::kLocalProtection:
      return "Check the lkey and its byte order (MemoryView::Local() has it big-endian), that the buffer is "
             "inside its region, and that the region is registered on this device";
    case mlx5::Syndrome::kMemoryWindowBind:
      return "Check the memory window's region and rights";
    case mlx5::Syndrome::kBadResponse:
      return "Check that both sides connected with each other's newest Info()";
    case mlx5::Syndrome::kLocalAccess:
      return "Check that the local region has local_write";
    case mlx5::Syndrome::kRemoteInvalidRequest:
      return "Check the message's length, and that the peer's endpoint and device take the operation";
    case mlx5::Syndrome::kRemoteAccess:
      return "Check the rkey and its byte order (MemoryView::Remote() has it big-endian), that the range is "
             "inside its region, and that the region and the peer's endpoint grant the operation";
    case mlx5::Syndrome::kRemoteOperation:
      return "Look for an error at the peer, for instance in the buffer of its receive";
    case mlx5::Syndrome::kTransportRetryExceeded:
      return "Check that the peer is alive and connected to this queue pair, and the network between";
    case mlx5::Syndrome::kReceiverNotReadyRetryExceeded:
      return "Create the peer's endpoint with a receive_depth and post receives there in time, or raise "
             "RetryConfig::rnr_retry";
    default:
      return kLookAtPeer;
  }
}

/// Names the queue pair and its peer.
std::string Connection(const QueueError& error) {
  return "QP " + std::to_string(error.qpn) +
         (error.peer ? " to QP " + std::to_string(error.peer->qpn) + " at " + ToString(error.peer->gid)
                     : ", which is not connected,");
}

/// Describes the error that a queue reported.
std::string DescribeQueues(const QueueError& error) {
  const auto cause = static_cast<mlx5::Syndrome>(error.syndrome);
  const std::string connection = Connection(error);
  const std::string at = " at WQE index " + std::to_string(error.wqe_index);
  if (error.receiving) {
    return "The receive queue of " + connection + " failed" + at + ": " + mlx5::Describe(cause) + " " +
           DescribeSyndrome(error.syndrome, error.vendor_syndrome) + ". " +
           (error.peer ? ReceiveRemedy(cause) : kConnectFirst) + ".";
  }
  if (cause == mlx5::Syndrome::kNone) {
    return "The send queue of " + connection + " failed" + at +
           ": the poster of this WQE gave up waiting for an earlier one to ring the doorbell (10 s passed, "
           "or the abort word was set), so no later poster can post. Look for a kernel that ended, was "
           "aborted or is held up between reserving and ringing, then call Reset().";
  }
  if (cause == mlx5::Syndrome::kFlushed) {
    return "The send queue of " + connection + " failed" + at +
           ": the only error seen is a work request that was flushed after another one had failed " +
           DescribeSyndrome(error.syndrome, error.vendor_syndrome) + ". " +
           (error.cq_mode == CqMode::kCollapsed
                ? "If a send was the cause, a collapsed CQ has lost it: create the endpoint with "
                  "CqMode::kRing, which keeps it. Otherwise look at the completions of the receive queue and "
                  "at the peer."
                : "No send failed before it: look at the completions of the receive queue and at the peer.");
  }
  return "The send queue of " + connection + " failed in the " + OperationName(error.opcode) + at + ": " +
         mlx5::Describe(cause) + " " + DescribeSyndrome(error.syndrome, error.vendor_syndrome) + ". " +
         (error.peer ? Remedy(cause) : kConnectFirst) + ".";
}

}  // namespace

std::string QueueError::Describe() const {
  if (syndrome == 0 && event)
    return "The waits on " + Connection(*this) + " were aborted. " + event->Describe();
  if (syndrome == static_cast<uint8_t>(mlx5::Syndrome::kFlushed) && disconnected) {
    return "Outstanding work requests of " + Connection(*this) +
           " were flushed: Disconnect() was called. Call Reset() and Connect() to continue.";
  }
  if (stopped) {
    return "The NIC moved " + Connection(*this) +
           " to its error state, and no send or receive of this side has failed: usually it refused a "
           "request of the peer. Look at the peer's error; check the rkey, the range and the rights that it "
           "uses; then call Reset() and Connect() on both sides.";
  }
  std::string text = DescribeQueues(*this);
  if (event) text.append(" ").append(event->Describe());
  return text;
}

}  // namespace warpverbs::inline v0_2::host
