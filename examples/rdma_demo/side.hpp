// One side of the demonstration: NIC, queue pair, memory, and the way it agrees with the other side.
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>

#include "connection.hpp"
#include "integers.hpp"
#include "memory.hpp"
#include "options.hpp"
#include "outcome.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/event_thread.hpp"
#include "warpverbs/host/tcp_exchange.hpp"

namespace rdma_demo {

/// A side's part of a step.
struct Step {
  /// Fills memory and posts receives: when both sides have done so, either may send.
  std::function<void()> prepare;
  /// Does what there is to do, and says what came of it.
  std::function<std::string(warpverbs::host::Deadline)> act;
  /// The peer's NIC may refuse it: then it is unsupported and has not failed.
  bool may_be_refused = false;
};

class Party {
 public:
  /// @param out  gets what happens, line by line; must outlive this
  /// @errors     host::Error
  Party(Role role, const Options& options, std::ostream& out);

  /// Waits for a client, passing over strangers, and connects to it. The listener is closed then.
  ///
  /// @errors  host::Error; std::runtime_error: the two sides do not agree
  void MeetClient(warpverbs::host::TcpListener listener);

  /// Goes to the server, and connects to it.
  ///
  /// @errors  as above
  void MeetServer();

  /// Does the next step of the plan with the peer. A failure of either is an outcome for both, after which
  /// the queue pair is connected anew.
  ///
  /// @errors  host::Error: the peer is out of reach
  void Run(const Step& step);

  /// Does all of a side's work and prints the summary, also where the work throws.
  ///
  /// @return  whether nothing failed on either side
  /// @errors  what the work throws
  bool SumUp(const std::function<void()>& work);

  // For the steps.
  const Memory& memory() const { return *memory_; }
  const Connection& connection() const { return connection_; }
  Slot out_slot() const { return {0, options_.bytes}; }
  Slot in_slot() const { return {options_.bytes, options_.bytes}; }
  warpverbs::device::LocalMemory Local(const Slot& slot) const;
  warpverbs::device::RemoteMemory PeersOutSlot() const { return {peer_.address, peer_.rkey}; }
  warpverbs::device::RemoteMemory PeersInSlot() const { return {peer_.address + options_.bytes, peer_.rkey}; }

 private:
  struct Peer {
    uint64_t address = 0;  // of its memory
    warpverbs::mlx5::Be32 rkey{};
    std::string memory{};  // in words
  };

  warpverbs::host::EndpointConfig Config();
  std::unique_ptr<Memory> MakeMemory(std::ostream& out) const;
  std::string Introduction() const;
  warpverbs::host::Deadline PeersDeadline() const;
  std::string Swap(warpverbs::host::TcpExchange& exchange, const std::string& mine, const char* what,
                   warpverbs::host::Deadline deadline) const;
  void Meet(warpverbs::host::TcpExchange exchange, const std::string& introduction);
  void Connect();
  Outcome Try(bool may_be_refused, const std::function<std::string()>& work) const;
  Outcome AgreeOn(const Outcome& own, const char* what);
  void Describe();

  const Role role_;
  const Options options_;
  std::ostream& out_;
  warpverbs::programs::NicAndPort where_;
  warpverbs::host::Device device_;
  warpverbs::host::EventThread events_;
  std::unique_ptr<Memory> memory_;
  Connection connection_;
  std::optional<warpverbs::host::TcpExchange> exchange_;
  Peer peer_;
  Summary summary_;
};

}  // namespace rdma_demo
