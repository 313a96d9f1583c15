// One side of the demonstration: its NIC, queue pair and memory, and its protocol with the other side.
#pragma once

#include <chrono>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>

#include "connection.hpp"
#include "integers.hpp"
#include "memory.hpp"
#include "options.hpp"
#include "step_result.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/event_thread.hpp"
#include "warpverbs/host/tcp_exchange.hpp"

namespace rdma_demo {

/// One side's part of a step.
struct Step {
  /// Fills memory and posts receives. No side sends before both have done this.
  std::function<void()> prepare;
  /// Does the work of the step, and returns the result in words.
  std::function<std::string(warpverbs::host::Deadline)> run;
  /// Makes a refusal by the peer's NIC kUnsupported, not kFailed.
  bool may_be_refused = false;
};

/// One side, and the state of its connection to the other.
class Side {
 public:
  /// @param out  receives the log, line by line; must outlive this
  /// @errors     host::Error
  Side(Role role, const Options& options, std::ostream& out);

  /// Waits for a client, connects to it and closes the listener. Connections of other programs are skipped.
  ///
  /// @errors  host::Error; std::runtime_error: the two sides do not agree
  void AcceptClient(warpverbs::host::TcpListener listener);

  /// Connects to the server.
  ///
  /// @errors  as AcceptClient()
  void ConnectToServer();

  /// Runs the next step of the plan with the peer. A failure on either side is the result of both. The queue
  /// pairs are reset and connected again after it.
  ///
  /// @errors  host::Error: the peer cannot be reached
  void Run(const Step& step);

  /// Runs all of a side's work and prints the summary, even if the work throws.
  ///
  /// @return  true if no step failed on either side
  /// @errors  every exception of the work
  bool RunAndSummarize(const std::function<void()>& work);

  // The steps use these.
  const Memory& memory() const { return *memory_; }
  const Connection& connection() const { return connection_; }
  Slot out_slot() const { return {0, options_.bytes}; }
  Slot in_slot() const { return {options_.bytes, options_.bytes}; }
  warpverbs::device::LocalMemory Local(const Slot& slot) const;
  warpverbs::device::RemoteMemory PeersOutSlot() const { return peer_.memory; }
  warpverbs::device::RemoteMemory PeersInSlot() const {
    return {peer_.memory.addr + options_.bytes, peer_.memory.rkey};
  }

 private:
  struct Peer {
    warpverbs::device::RemoteMemory memory{};
    std::string memory_name{};
  };

  warpverbs::host::EndpointConfig Config();
  std::unique_ptr<Memory> MakeMemory(std::ostream& out) const;
  std::string Introduction() const;
  std::chrono::nanoseconds PeersPatience() const;
  warpverbs::host::Deadline PeersDeadline() const;
  void Start(warpverbs::host::TcpExchange exchange, const std::string& introduction);
  void Connect();
  StepResult Try(bool may_be_refused, const std::function<std::string()>& work) const;
  StepResult CombineWithPeer(const StepResult& own, const char* what);
  void Describe();

  const Role role_;
  const Options options_;
  std::ostream& out_;
  warpverbs::programs::NicAndPort port_;
  warpverbs::host::Device device_;
  warpverbs::host::EventThread events_;
  std::unique_ptr<Memory> memory_;
  Connection connection_;
  std::optional<warpverbs::host::TcpExchange> exchange_;
  Peer peer_;
  Summary summary_;
};

/// Serves one client.
///
/// @return  true if no step failed on either side
/// @errors  host::Error, std::runtime_error: the program cannot continue. The summary so far is printed
bool RunServer(warpverbs::host::TcpListener listener, const Options& options, std::ostream& out);

/// Runs the client of a server; as RunServer().
bool RunClient(const Options& options, std::ostream& out);

}  // namespace rdma_demo
