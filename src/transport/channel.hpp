#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "immediate_data.hpp"
#include "request.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/completion_ring.hpp"
#include "warpverbs/device/raw_send_queue.hpp"
#include "warpverbs/device/receive_queue.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/transport/config.hpp"

namespace warpverbs::inline v0_2::transport {

/// One queue pair of a transport, with a handshake that connects it whichever side starts first.
///
/// The first message is an empty hello. A peer that is not connected yet acknowledges nothing. When the
/// retries have run out, the queue pair starts again with the same PSN, so the peer takes the second hello
/// for a repetition of the first. After each acknowledged hello this side sends a ready. The peer may be
/// starting again at that moment, so a ready that is not acknowledged is repeated in the same way. Data may
/// flow once this side's ready was acknowledged and the peer's has arrived: neither side starts again from
/// then on. Until then each message of the peer takes a receive, so this side knows which PSN comes next.
class Channel {
 public:
  using Cpu = arch::Cpu;

  /// @param nic  index of the device among the transport's NICs
  /// @errors  host::Error
  Channel(const host::Device& device, uint8_t nic, const TransportConfig& config);

  uint8_t nic() const { return nic_; }
  const host::Device& device() const { return endpoint_.device(); }
  host::EndpointInfo Info() const { return endpoint_.Info(); }
  uint32_t max_message() const { return sends_.view().max_message; }
  std::string Describe() const { return endpoint_.Describe(); }

  /// @errors  host::Error: the peer cannot be reached from here
  void CheckPeer(const host::EndpointInfo& peer) const { endpoint_.CheckPeer(peer); }

  /// Connects and says hello.
  ///
  /// @param peer_nic  index of the peer's device among the NICs of its transport
  /// @errors  host::Error
  void Connect(const host::EndpointInfo& peer, uint8_t peer_nic);
  uint8_t peer_nic() const { return peer_nic_; }

  uint32_t room() const { return depth_ - (posted_ - completed_); }
  bool idle() const { return posted_ == completed_; }

  /// Posts a piece of a transfer, or the end of a cancelled one.
  ///
  /// @pre  kOpen, and room()
  void PostPiece(Transfer& transfer, const Part& part, const PieceRange& range, const ImmediateData* imm);
  void PostCancelled(Transfer& transfer, const ImmediateData& imm);
  /// Hands everything posted to the NIC.
  void Ring();

  /// Takes the next send completion.
  ///
  /// @param transfer  becomes the transfer whose piece is done; null: a message of the handshake is done
  /// @return  false: there is no completion, or it is an error
  bool PollSend(Transfer*& transfer);

  /// Takes the next receive completion.
  ///
  /// @param imm  becomes the immediate data; empty: a message of the handshake arrived
  /// @return  false: there is no completion, or it is an error
  bool PollReceive(std::optional<ImmediateData>& imm);

  /// Posts again the receives that were taken.
  void ReturnReceives();

  enum class State : uint8_t {
    kConnecting,
    kOpen,        ///< data may flow
    kPeerAbsent,  ///< the hello or the ready was not acknowledged: call Restart()
    kFailed,
  };
  /// @pre  all available completions have been taken
  State state() const;

  /// Says whether the receives were flushed. The failure before the flush has completed by then.
  bool flushed() const { return !flush_.ok(); }

  /// Resets the queue pair and repeats this side's messages.
  ///
  /// @pre  kPeerAbsent
  /// @errors  host::Error
  void Restart();

  /// Says whether the peer has sent a message or acknowledged one: then it was connected at that time.
  bool peer_seen() const { return readies_ != 0 || handshakes_received_ != 0; }

  /// Returns whether the peer's NIC has refused an access: its key or its range was wrong.
  bool access_denied() const;

  /// Returns the transfer whose key or range the peer's NIC refused; null: the failure is another one.
  Transfer* refused() const { return access_denied() ? refused_ : nullptr; }

  /// Says why the channel has failed.
  std::string DescribeFailure() const;

  host::Endpoint& endpoint() { return endpoint_; }
  uint32_t send_consumer_index() const { return completions_.consumer_index(); }
  uint32_t receive_consumer_index() const { return receives_->consumer_index(); }

 private:
  void Start(const device::ReceiveQueueView& view);
  void PostHandshake(ImmediateData::Kind kind);
  void RepeatHello();
  void PostReady();
  void Record(Transfer* transfer);
  void Fail(const device::Status& status, bool receiving);
  device::RemoteMemory Remote(const Part& part, uint64_t offset) const;

  uint8_t nic_, peer_nic_ = 0;
  host::Endpoint endpoint_;
  device::RawSendQueue<Cpu> sends_;
  device::CompletionRing<Cpu> completions_;
  std::optional<device::ReceiveQueue<Cpu>> receives_;
  std::optional<host::EndpointInfo> peer_;
  uint32_t depth_;
  uint32_t posted_ = 0, submitted_ = 0, completed_ = 0;  // free-running
  mlx5::Be64 doorbell_{};                                // doorbell value of the newest WQE
  std::vector<Transfer*> transfers_;                     // indexed by slot
  bool ready_acknowledged_ = false, peer_ready_ = false;
  // Numbers of messages before the data. A restart repeats them, so that each PSN carries the same message.
  uint32_t hellos_ = 1;
  uint32_t readies_ = 0;  // one for each acknowledged hello
  bool receives_taken_ = false;
  uint32_t handshakes_received_ = 0;  // number of messages that the peer sent before its data
  device::Status failure_{};          // the first failure other than a flush, otherwise the first
  bool receive_failed_ = false;
  Transfer* refused_ = nullptr;  // the first whose piece completed with an error other than a flush
  device::Status flush_{};       // the first flushed receive: nothing arrives after it
};

}  // namespace warpverbs::inline v0_2::transport
