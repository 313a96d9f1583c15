#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "perf/initiator/initiator.hpp"
#include "perf/options/options.hpp"
#include "perf/party/memory.hpp"
#include "perf/steps.hpp"
#include "perf/talk/handshake.hpp"
#include "perf/talk/talk.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/gpu.hpp"

namespace warpverbs::perf {

class CmLine;  // a connection by rdma_cm: rdma_cm.cpp

/// What a side tells of one of its queue pairs.
struct PeerFlow {
  uint32_t qpn = 0, psn = 0, rkey = 0;
  uint16_t lid = 0;
  host::Gid gid{};
  uint64_t source = 0, target = 0;  ///< the parts of its memory
};

/// As a peer tells it.
///
/// @errors  std::runtime_error: names the field that is not there, or is of another type
PeerFlow PeerFlowFrom(const Json& answer);

/// What both sides have agreed on.
struct Agreed {
  Grain grain{};     ///< of what lies apart
  uint32_t mtu = 0;  ///< of the path
};

/// An initiator of one side with its queue pairs and its memory, connected to that of the other side.
class Party {
 public:
  /// @param device, options  outlive this
  Party(const host::Device& device, const Options& options, InitiatorKind kind, const Agreed& agreed,
        const Steps& steps);
  ~Party();

  /// Learns where the other side's queues and memory lie, and connects to them.
  void Connect(Talk& talk, const Steps& steps);

  /// Posts the first receives of all flows.
  void PostReceives() const;
  /// Counts the messages that each flow's receives have taken; the next one comes to this place of a layout.
  void HasReceived(uint32_t messages) { received_ += messages; }
  uint32_t NextPlace(const Layout& layout) const { return static_cast<uint32_t>(received_ % layout.slots); }

  Initiator& initiator() const { return *initiator_; }
  const FlowMemory& memory() const { return *memory_; }
  const host::Endpoint& endpoint(uint32_t flow) const { return endpoints_[flow]; }
  uint32_t flows() const { return options_.qps; }

  /// Flows that send, or that the verb brings in, messages laid out so.
  Flow FlowOf(uint32_t flow, const Layout& layout) const;
  /// How messages of a size lie.
  Layout LayoutFor(uint64_t bytes) const;
  /// The receive queue of a flow, for messages of any size that is measured.
  ReceiveFlow ReceivesOf(uint32_t flow) const;

  /// Throws what a launch has failed with, if it has.
  ///
  /// @errors  Error: names the queue pair, and what its endpoint knows
  void Check(const Report& report) const;
  /// Ends a launch that is under way; Check() of its report throws nothing then. Any thread.
  static void Stop(Report& report);

  PeerFlow Own(uint32_t flow) const;
  const PeerFlow& Theirs(uint32_t flow) const { return peers_[flow]; }

  /// By what this side posts, if it does.
  std::optional<KernelFacts> Kernel() const {
    if (!options_.posts()) return std::nullopt;
    return initiator_->KernelFor(options_.verb, options_.is_latency(), options_.posting);
  }
  /// What was chosen, in lines of text.
  std::string Describe() const;

 private:
  host::EndpointConfig Config(uint32_t mtu) const;

  const Options& options_;
  Grain grain_;
  std::optional<host::Gpu> gpu_;
  std::unique_ptr<Initiator> initiator_;
  Layout largest_;  // of all sizes
  std::optional<FlowMemory> memory_;
  std::deque<host::Endpoint> endpoints_;
  std::vector<std::shared_ptr<CmLine>> lines_;
  std::vector<PeerFlow> peers_;
  uint64_t received_ = 0;
};

/// Connects endpoints by rdma_cm: the client goes to the server's listener, one after another.
///
/// @errors  Error; or this program was built without rdma_cm
std::vector<std::shared_ptr<CmLine>> ConnectByRdmaCm(std::deque<host::Endpoint>& endpoints,
                                                     const Options& options, Talk& talk);

}  // namespace warpverbs::perf
