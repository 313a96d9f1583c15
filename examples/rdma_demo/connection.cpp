#include "connection.hpp"

#include <array>

#include "warpverbs/host/connect_all.hpp"

namespace rdma_demo {

namespace device = warpverbs::device;
namespace host = warpverbs::host;

using ReceiveQueue = device::ReceiveQueue<warpverbs::arch::Cpu>;

void Connection::Connect(host::Exchange& exchange, host::Deadline deadline) {
  endpoint_.Reset();
  host::ConnectAll(std::array{&endpoint_}, exchange, deadline);
}

void Connection::PostReceive(const device::LocalMemory& memory) const {
  ReceiveQueue queue(endpoint_.ReceiveView());
  const device::Status status = queue.Post(memory);
  queue.Submit();
  CheckOperation(endpoint_, "post a receive of " + std::to_string(memory.bytes) + " bytes", status);
}

device::Received Connection::Receive(host::Deadline deadline) const {
  ReceiveQueue queue(endpoint_.ReceiveView());
  const device::Received received = queue.Poll(Until(endpoint_, deadline));
  CheckOperation(endpoint_, "receive a message", received.status);
  return received;
}

}  // namespace rdma_demo
