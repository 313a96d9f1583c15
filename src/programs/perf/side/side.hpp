#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "perf/control/control_channel.hpp"
#include "perf/control/handshake.hpp"
#include "perf/initiator/initiator.hpp"
#include "perf/options/options.hpp"
#include "perf/side/memory.hpp"
#include "perf/step_log.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"

namespace warpverbs::perf {

/// The addresses that a side sends for one of its queue pairs.
struct FlowAddress {
  uint32_t qpn = 0, psn = 0, rkey = 0;
  uint16_t lid = 0;
  host::Gid gid{};
  uint64_t source = 0, target = 0;  ///< addresses of the two parts of its memory
};

/// Reads a peer's message.
///
/// @errors  std::runtime_error: names a field that is missing or has another type
FlowAddress ParseFlowAddress(const Json& message);

/// The results of the handshake.
struct Agreement {
  Alignment alignment{};  ///< distances between messages
  uint32_t mtu = 0;       ///< MTU of the path
};

/// One side of a measurement: an initiator, its queue pairs and its memory, connected to those of the peer.
class PerfSide {
 public:
  /// Checks what does not depend on the peer: the GPU or the Gaudi, and the settings of an endpoint.
  ///
  /// @errors  Error: something does not exist here; std::runtime_error: as the constructor
  static void Check(const host::Device& device, const Options& options, InitiatorKind kind);

  /// @param device, options  must outlive the side
  PerfSide(const host::Device& device, const Options& options, InitiatorKind kind, const Agreement& agreement,
           const StepLog& steps);
  ~PerfSide();

  /// Exchanges addresses with the peer, and connects the queue pairs.
  void Connect(ControlChannel& control, const StepLog& steps);

  /// Fills the receive queues of all flows.
  void PostReceives() const;
  /// Counts messages that each flow has received. The next message arrives in NextSlot().
  void CountReceived(uint32_t messages) { received_ += messages; }
  uint32_t NextSlot(const Layout& layout) const { return static_cast<uint32_t>(received_ % layout.slots); }

  Initiator& initiator() const { return *initiator_; }
  const FlowMemory& memory() const { return *memory_; }
  const host::Endpoint& endpoint(uint32_t flow) const { return endpoints_[flow]; }
  uint32_t flows() const { return options_.qps; }

  /// Returns a flow for messages in a layout.
  Flow FlowOf(uint32_t flow, const Layout& layout) const;
  /// Returns the layout of messages of a size.
  Layout LayoutFor(uint64_t bytes) const;
  /// Returns the receive queue of a flow, for messages of all sizes that are measured.
  ReceiveFlow ReceivesOf(uint32_t flow) const;

  /// Throws if a launch failed.
  ///
  /// @errors  Error: names the queue pair and its endpoint's diagnosis
  void Check(const LaunchResult& result) const;
  /// Stops a running launch, from any thread. Check() of its result does not throw then.
  static void Stop(LaunchResult& result);

  FlowAddress LocalAddress(uint32_t flow) const;
  const FlowAddress& RemoteAddress(uint32_t flow) const { return peers_[flow]; }

  /// Returns the kernel that posts; empty if this side does not post by kernels.
  std::optional<KernelFacts> Kernel() const {
    if (!options_.posts()) return std::nullopt;
    return initiator_->KernelFor(options_.verb, options_.is_latency(), options_.posting);
  }
  /// Returns lines that say what was chosen.
  std::string Describe() const;

 private:
  const Options& options_;
  Alignment alignment_;
  std::optional<host::Gpu> gpu_;
  std::unique_ptr<Initiator> initiator_;
  Layout largest_;  // layout of the largest size
  std::optional<FlowMemory> memory_;
  std::deque<host::Endpoint> endpoints_;
  std::vector<std::shared_ptr<void>> cm_connections_;
  std::vector<FlowAddress> peers_;
  uint64_t received_ = 0;
};

/// Connects endpoints by rdma_cm: the client connects to the server's listener, one endpoint after another.
///
/// @return  the connections, to keep while the endpoints are in use
/// @errors  Error: a connection failed, or this program was built without librdmacm
std::vector<std::shared_ptr<void>> ConnectByRdmaCm(std::deque<host::Endpoint>& endpoints,
                                                   const Options& options, ControlChannel& control);

}  // namespace warpverbs::perf
