#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/message_requester.hpp"
#include "core/network.hpp"
#include "wire/address_table.hpp"
#include "wire/connection_channel.hpp"
#include "wire/datagrams.hpp"
#include "wire/engine_threads.hpp"
#include "wire/management.hpp"
#include "wire/media/descriptor.hpp"
#include "wire/medium.hpp"
#include "wire/message_link.hpp"
#include "wire/packet_sink.hpp"

namespace softhca {

struct WireOptions {
  /// Called once, when the first queue pair needs packets: a program that stays within one process opens no
  /// socket.
  ///
  /// @errors  CommandError
  std::function<std::unique_ptr<Medium>()> open_medium{};
  bool direct = true;  ///< RC within the process works without packets
  /// Open the medium at once: only it answers requests for the ports' addresses (ARP, neighbour discovery).
  bool open_at_once = false;
  /// No other process of this network namespace has the ports' addresses. A cable's are its user's choice.
  bool unique_addresses = true;
};

/// Connects queue pairs: RC within the process by direct messages, everything else by packets on a medium.
class WireNetwork : public Network, private PacketSink, private DatagramSink, private ManagementSink {
 public:
  /// @errors  CommandError: from WireOptions::open_medium, if the medium is opened at once
  WireNetwork(std::vector<Hca*> devices, WireOptions options);

  void OnTransition(QueuePair& qp) override;
  void FinishDatagrams(QueuePair& qp) override;
  void OnGroups() override;
  bool Run(QueuePair& qp, uint64_t now_ns) override;
  bool Poll(uint64_t now_ns) override;
  uint64_t NextNs() const override;
  void OnStall(uint64_t ns) override;
  bool HasUnsent() const override { return medium_ != nullptr && medium_->HasUnsent(); }
  bool Listens() const override { return poll_descriptor_ >= 0; }
  void Wait(uint64_t limit_ns) override;

  /// Sets the agent that answers on queue pair 1 of every port; null: none.
  ///
  /// @errors  CommandError: the medium cannot be opened
  void SetManagementAgent(ManagementAgent* agent);
  ManagementSink& management() { return *this; }

 private:
  bool Send(const QueuePair& from, Packet packet, const Gather& payload) override;
  std::optional<uint64_t> PeerStalledAt(const QueuePair& from) override;
  bool SendDatagram(const QueuePair& from, const Destination& to, Packet packet,
                    const Gather& payload) override;
  void SendMad(Hca& hca, uint8_t port, uint8_t gid_index, const Gid& destination, const Mad& mad) override;

  bool NeedsPackets(const QueuePair& qp) const;
  void OpenMedium();
  static void Watch(const Descriptor& waiting, const Medium& medium);
  void Announce();
  bool SendAlong(const AddressPath& path, const QueuePair& from, Packet& packet, const Gather& payload);
  bool SendFrame(const Flow& flow, const Packet& packet, const Gather& payload);
  void OnFrame(std::span<const uint8_t> bytes);
  void Deliver(const Port& port, const Packet& packet, const Frame& frame);
  void DeliverToDcTarget(QueuePair& target, const Packet& packet, const Flow& flow);
  void DeliverToGroup(const Packet& packet, const Frame& frame);
  void Drop(const char* reason, uint64_t frames = 1) const;
  static bool IsFromPeer(const QueuePair& qp, const Flow& flow);
  bool RunChannels(bool may_time_out);

  AddressTable addresses_;
  WireOptions options_;
  MessageLink message_link_;
  MessageRequester messages_{message_link_};
  std::unique_ptr<Medium> medium_;
  Descriptor waiting_;                    ///< epoll descriptor, readable when a frame has arrived
  std::atomic<int> poll_descriptor_{-1};  ///< its number, for the thread that waits
  std::atomic<bool> quiet_ = false;       ///< the last sleep ended without a frame
  EngineThreads threads_;
  pid_t engine_ = 0;  ///< thread that calls Poll(); 0: not yet known
  ManagementAgent* agent_ = nullptr;
  uint32_t mad_psn_ = 0;
  uint64_t now_ns_ = 0;
  int full_polls_ = 0;  ///< polls in succession that may have left frames
  std::vector<uint8_t> frame_;
  std::shared_ptr<BusyChannels> busy_ = std::make_shared<BusyChannels>();
};

}  // namespace softhca
