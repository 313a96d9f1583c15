// Operations that a thread of the processor posts to an endpoint's queues, and waits for.
#include "warpverbs/device/operations.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <bit>

#include "endpoint.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/atomics.hpp"
#include "warpverbs/device/receive_queue.hpp"
#include "warpverbs/device/send_queue.hpp"

namespace warpverbs::python {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPiece(50);  // of a wait, between two looks for signals

std::string NameOf(const host::Endpoint& endpoint) { return "QP " + std::to_string(endpoint.qpn()); }

/// Returns the limit of a part of a wait, and when that part ends.
std::pair<device::WaitLimit, host::Deadline> NextPiece(const host::Endpoint& endpoint,
                                                       host::Deadline deadline) {
  const auto now = steady_clock::now();
  const host::Deadline end = deadline - now > kPiece ? now + kPiece : deadline;
  const auto left = std::chrono::nanoseconds(std::max(end, now) - now).count();
  return {{.deadline_ns = arch::Cpu::NowNs() + static_cast<uint64_t>(left), .abort = endpoint.AbortWord()},
          end};
}

/// Calls a wait in pieces, and looks for signals between them.
///
/// @param wait  gets a limit, returns a status
template <class Wait>
device::Status InPieces(const host::Endpoint& endpoint, host::Deadline deadline, const Wait& wait) {
  while (true) {
    const auto [limit, end] = NextPiece(endpoint, deadline);
    const device::Status status = wait(limit);
    if (status.code != device::Code::kTimeout || end == deadline) return status;
    CheckSignals();
  }
}

/// @param what    "write 64 bytes"
/// @param remedy  for a status that is no error of the queue
[[noreturn]] void Fail(const host::Endpoint& endpoint, const std::string& what, const device::Status& status,
                       const char* remedy) {
  const std::string object = "by " + NameOf(endpoint);
  const auto error = status.code == device::Code::kError ? endpoint.LastError() : std::nullopt;
  if (error) {
    const std::string sentence =
        "Cannot " + what + " " + object + ": the queue has failed. " + error->Describe();
    throw OperationError(status, sentence);
  }
  throw OperationError(status, host::Error(what, object, host::Describe(status), remedy).what());
}

/// @errors  Error: kernels use the queues
void RequireProcessor(const EndpointObject& object, const std::string& what) {
  if (!object.gpu) return;
  throw host::Error(what, "by " + NameOf(*object.endpoint), "kernels of a GPU use its queues",
                    "Leave it to a kernel, or use an endpoint without a GPU");
}

/// Posts an operation by a thread of the processor, and waits until it is done.
///
/// @errors  Error: kernels post to the queue, or it is not connected; OperationError
template <class Operation>
void PostAndWait(const EndpointObject& object, const Operation& operation, const std::string& what,
                 host::Deadline deadline) {
  RequireProcessor(object, what);
  const host::Endpoint& endpoint = *object.endpoint;
  if (!endpoint.peer()) {
    throw host::Error(what, "by " + NameOf(endpoint), "the endpoint is not connected",
                      "Call connect() first");
  }
  const device::Status status = device::WithSendQueue<arch::Cpu>(endpoint.View(), [&](auto& queue) {
    device::Posted posted{};
    const device::Status post = InPieces(endpoint, deadline, [&](const device::WaitLimit& limit) {
      posted = queue.Post(operation, limit);
      return posted.status;
    });
    if (!post.ok()) return post;
    return InPieces(endpoint, deadline,
                    [&](const device::WaitLimit& limit) { return queue.Wait(posted.ticket, limit); });
  });
  if (!status.ok()) Fail(endpoint, what, status, "Keep the memory until reset(): the NIC may still use it");
}

/// Does the same without the GIL, while no other thread posts to the endpoint.
template <class Operation>
void Execute(const Endpoint& self, const Operation& operation, const std::string& what,
             const py::object& timeout) {
  const host::Deadline deadline = DeadlineOf(timeout);
  const auto object = self.Get();
  WithoutGil([&] {
    const CallLock lock(
        object->mutex, [&] { return NameOf(*object->endpoint); }, deadline);
    PostAndWait(*object, operation, what, deadline);
  });
}

/// Memory of this side, as Python passes it: address, bytes, lkey.
using Local = std::tuple<uint64_t, uint64_t, uint32_t>;

device::LocalMemory From(const Local& local) {
  const auto& [address, bytes, lkey] = local;
  return {address, bytes, std::bit_cast<mlx5::Be32>(lkey)};
}
device::RemoteMemory At(uint64_t remote, uint32_t rkey) { return {remote, std::bit_cast<mlx5::Be32>(rkey)}; }
std::string BytesOf(const Local& local) { return std::to_string(std::get<1>(local)) + " bytes"; }

void Write(const Endpoint& self, const Local& local, uint64_t remote, uint32_t rkey,
           std::optional<uint32_t> imm, const py::object& timeout) {
  const std::string what = "write " + BytesOf(local);
  if (imm) {
    Execute(self, device::WriteImm(At(remote, rkey), From(local), mlx5::ToBe32(*imm)), what, timeout);
  } else {
    Execute(self, device::Write(At(remote, rkey), From(local)), what, timeout);
  }
}

void Read(const Endpoint& self, const Local& local, uint64_t remote, uint32_t rkey,
          const py::object& timeout) {
  Execute(self, device::Read(At(remote, rkey), From(local)), "read " + BytesOf(local), timeout);
}

void Send(const Endpoint& self, const Local& local, std::optional<uint32_t> imm, const py::object& timeout) {
  const std::string what = "send " + BytesOf(local);
  if (imm) {
    Execute(self, device::SendImm(From(local), mlx5::ToBe32(*imm)), what, timeout);
  } else {
    Execute(self, device::Send(From(local)), what, timeout);
  }
}

/// Changes a word of the peer.
///
/// @param compare  the word changes if it is equal; none: `value` is added to it
/// @return  the old value
uint64_t Atomic(const Endpoint& self, uint64_t remote, uint32_t rkey, std::optional<uint64_t> compare,
                uint64_t value, const py::object& timeout) {
  const host::Deadline deadline = DeadlineOf(timeout);
  const auto object = self.Get();
  return WithoutGil([&] {
    const CallLock lock(
        object->mutex, [&] { return NameOf(*object->endpoint); }, deadline);
    if (!object->fetched) object->fetched.emplace(*object->device);
    const device::LocalMemory fetched = object->fetched->Local();
    const std::string what = "change a word of the peer";
    if (compare) {
      const device::CompareSwapOperands<uint64_t> operands{*compare, value};
      PostAndWait(*object, device::CompareSwap(At(remote, rkey), operands, fetched), what, deadline);
    } else {
      PostAndWait(*object, device::FetchAdd(At(remote, rkey), value, fetched), what, deadline);
    }
    return device::Fetched<arch::Cpu>(object->fetched->word());
  });
}

/// @return  number of the receive, counted from 0 since the last reset, modulo 2^32
uint32_t PostReceive(const Endpoint& self, const Local& local) {
  const auto object = self.Get();
  return WithoutGil([&] {
    const std::string what = "receive into " + BytesOf(local);
    RequireProcessor(*object, what);
    const CallLock lock(object->receive_mutex, [&] { return NameOf(*object->endpoint); });
    const device::ReceiveQueueView view = object->endpoint->ReceiveView();
    device::ReceiveQueue<arch::Cpu> queue(view);
    const auto index = static_cast<uint32_t>(arch::Cpu::Load(view.state) >> 32);
    const device::Status status = queue.Post(From(local));
    if (!status.ok())
      Fail(*object->endpoint, what, status, "Take arrivals by receive(), or raise receive_depth");
    queue.Submit();
    return index;
  });
}

/// Waits for an arrival. Between two pieces of the wait other calls may have the queue.
///
/// @return  number of the receive, bytes, immediate data or None, whether a write came
py::tuple Receive(const Endpoint& self, const py::object& timeout) {
  const host::Deadline deadline = DeadlineOf(timeout);
  const auto object = self.Get();
  const device::Received received = WithoutGil([&] {
    const std::string what = "receive";
    RequireProcessor(*object, what);
    const host::Endpoint& endpoint = *object->endpoint;
    // A receive that only looks needs its turn, too, after a piece of another thread's wait.
    const host::Deadline last_turn = std::max(deadline, host::DeadlineIn(2 * kPiece));
    device::Received one;
    one.status = InPieces(endpoint, deadline, [&](const device::WaitLimit& limit) {
      LetOthersCall(object->receive_mutex, deadline);
      const CallLock lock(
          object->receive_mutex, [&] { return NameOf(endpoint); }, last_turn);
      device::ReceiveQueue<arch::Cpu> queue(endpoint.ReceiveView());
      one = queue.Poll(limit);
      return one.status;
    });
    if (one.status.ok()) return one;
    // Only a failure's description needs the whole endpoint, for which a send of another thread may wait.
    std::optional<EndpointLock> lock;
    if (one.status.code == device::Code::kError) lock.emplace(*object);
    Fail(endpoint, what, one.status, "Nothing has arrived: look at the peer");
  });
  const py::object imm = received.has_imm ? py::cast(mlx5::ToBe32(received.imm.raw).raw) : py::none();
  return py::make_tuple(received.index, received.bytes, imm, received.is_write);
}

}  // namespace

FetchedWord::FetchedWord(const host::Device& device)
    : pages_(sizeof(uint64_t)), region_(device, pages_.data(), sizeof(uint64_t)) {}

device::LocalMemory FetchedWord::Local() const {
  const host::MemoryView view = region_.View();
  return {view.addr, sizeof(uint64_t), mlx5::ToBe32(view.lkey)};
}

const uint64_t& FetchedWord::word() const { return *reinterpret_cast<const uint64_t*>(pages_.data()); }

void BindOperations(py::class_<Endpoint>& endpoint) {
  endpoint.def("_write", Write)
      .def("_read", Read)
      .def("_send", Send)
      .def("_atomic", Atomic)
      .def("_post_receive", PostReceive)
      .def("_receive", Receive);
}

}  // namespace warpverbs::python
