#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "announcement.hpp"
#include "request.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/completion_ring.hpp"
#include "warpverbs/device/raw_send_queue.hpp"
#include "warpverbs/device/receive_queue.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/transport/options.hpp"

namespace warpverbs::transport {

/// One queue pair of a transport, and its way to become connected whichever side is first.
///
/// Its first message is an empty hello. A peer that is not there yet acknowledges nothing; when the retries
/// have run out, the queue pair begins anew, with the same PSN, so that the peer takes a second hello for the
/// first one repeated. An acknowledged hello is followed by a ready: from then on this side resets no more.
/// Data flow once both are known: the own hello was acknowledged, and the peer's ready is here. Until then
/// each message of the peer took a receive, so it is known which PSN comes next.
class Lane {
 public:
  using Cpu = arch::Cpu;

  /// @param nic     index of the device among the transport's
  /// @errors  host::Error
  Lane(const host::Device& device, uint8_t nic, const TransportOptions& options);

  uint8_t nic() const { return nic_; }
  const host::Device& device() const { return endpoint_.device(); }
  host::EndpointInfo Info() const { return endpoint_.Info(); }
  uint32_t max_message() const { return sends_.view().max_message; }
  std::string Describe() const { return endpoint_.Describe(); }

  /// @errors  host::Error: the peer cannot be reached from here
  void CheckPeer(const host::EndpointInfo& peer) const { endpoint_.CheckPeer(peer); }

  /// Connects and says hello.
  ///
  /// @param peer_nic  index of the peer's device among those of its transport
  /// @errors  host::Error
  void Connect(const host::EndpointInfo& peer, uint8_t peer_nic);
  uint8_t peer_nic() const { return peer_nic_; }

  uint32_t room() const { return depth_ - (posted_ - completed_); }
  bool idle() const { return posted_ == completed_; }

  // Posting. @pre  kOpen, and room()
  void PostPiece(Transfer& transfer, uint64_t offset, uint64_t bytes, const Announcement* announcement);
  void PostVoid(Transfer& transfer, const Announcement& announcement);
  /// Lets the NIC see all that was posted.
  void Ring();

  /// Takes the next send completion; false: there is none, or it is an error.
  ///
  /// @param transfer  becomes the transfer of which a piece is done; null: it was a message of the handshake
  bool TakeSend(Transfer*& transfer);

  /// Takes the next arrival; false: there is none, or it is an error.
  ///
  /// @param announcement  becomes what it says; empty: it was a message of the handshake
  bool TakeReceive(std::optional<Announcement>& announcement);

  /// Gives receives that were taken back to the NIC.
  void ReturnReceives();

  enum class State : uint8_t {
    kConnecting,
    kOpen,    ///< data may flow
    kAbsent,  ///< nobody has acknowledged the hello: HelloAgain()
    kFailed,
  };
  /// @pre  all completions that are there have been taken
  State state() const;

  /// Whether the receives were flushed: what failed before has completed.
  bool flushed() const { return !flush_.ok(); }

  /// Begins anew.
  ///
  /// @pre  kAbsent
  /// @errors  host::Error
  void HelloAgain();

  /// Why it has failed, in a sentence or two.
  std::string WhyFailed() const;

  host::Endpoint& endpoint() { return endpoint_; }
  uint32_t send_consumer_index() const { return completions_.consumer_index(); }
  uint32_t receive_consumer_index() const { return receives_->consumer_index(); }

 private:
  void Start();
  void Say(Announcement::Kind kind);
  void Nudge();
  void Remember(Transfer* transfer);
  void Fail(const device::Status& status, bool receiving);
  device::RemoteMemory Remote(const Transfer& transfer, uint64_t offset) const;

  uint8_t nic_, peer_nic_ = 0;
  host::Endpoint endpoint_;
  device::RawSendQueue<Cpu> sends_;
  device::CompletionRing<Cpu> completions_;
  std::optional<device::ReceiveQueue<Cpu>> receives_;
  std::optional<host::EndpointInfo> peer_;
  uint32_t depth_;
  uint32_t posted_ = 0, rung_ = 0, completed_ = 0;  // free-running
  mlx5::Be64 doorbell_{};                           // of the last that was posted
  std::vector<Transfer*> transfers_;                // by slot
  bool hello_acknowledged_ = false, peer_ready_ = false;
  uint32_t hellos_ = 1;  // before the ready, each time anew: a PSN always carries the same
  bool receives_taken_ = false;
  uint32_t greetings_ = 0;    // messages of the peer before its data
  device::Status failure_{};  // the first that is no mere flush, or else the first
  bool receive_failed_ = false;
  device::Status flush_{};  // of the first receive that was flushed: nothing more arrives
};

}  // namespace warpverbs::transport
