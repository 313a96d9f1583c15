#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "dma/device_memory.hpp"
#include "warpverbs/mlx5/cqe.hpp"
#include "warpverbs/mlx5/doorbell.hpp"
#include "warpverbs/mlx5/syndrome.hpp"

namespace softhca {

namespace mlx5 = warpverbs::mlx5;

struct CqConfig {
  uint8_t* ring = nullptr;
  mlx5::CqDbr* dbr = nullptr;
  uint32_t log_depth = 0;
  uint32_t cqe_bytes = 64;  ///< 64 or 128
  bool collapsed = false;
  bool ignore_overrun = false;
  bool writes_record = true;  ///< whether `dbr` may be written: a card only reads it
  uint32_t uar_page = 0;
  std::vector<uint32_t> umems{};          ///< umems behind the pointers above, if created by DEVX
  std::function<void()> on_completion{};  ///< called when an armed queue gets a completion
  std::function<void()> on_error{};       ///< called when the queue overruns
};

/// Contents of a completion; the queue adds the slot and the owner bit.
struct Completion {
  mlx5::CqeOpcode opcode = mlx5::CqeOpcode::kRequester;
  uint32_t qpn = 0;
  uint32_t user_index = 0;
  uint8_t wqe_opcode = 0;
  uint16_t wqe_index = 0;
  uint32_t bytes = 0;
  mlx5::Be32 imm{};
  uint32_t remote_qpn = 0;
  bool solicited = false;
  std::optional<mlx5::CqeL3Header> l3_header{};     ///< for datagrams
  uint16_t slid = 0;                                ///< source LID; for datagrams on InfiniBand
  uint8_t service_level = 0;                        ///< for datagrams on InfiniBand
  mlx5::Syndrome syndrome = mlx5::Syndrome::kNone;  ///< for error opcodes only
  std::optional<uint8_t> vendor_syndrome{};         ///< default: the code that goes with the syndrome
};

/// Writes completions to a program's ring, and announces them when the program has armed the queue.
class CompletionQueue {
 public:
  explicit CompletionQueue(CqConfig config);

  /// @return  false if the completion was lost, as on hardware, because the queue overran or its memory was
  ///          freed; also false if its data did not arrive, in which case it is written as an error
  bool Push(const Completion& completion);

  /// Continues in another ring. One more entry of the old ring, of opcode kResize, says that it is the last
  /// one; it counts as a completion. The program moves the completions that it has not read to the new ring,
  /// one index higher.
  ///
  /// @param cqe_bytes  64 or 128
  /// @errors  CommandError: kBadCqSize if either ring has no room for that, kBadResourceState if the queue
  ///          has failed
  /// @source  rdma-core v44, providers/mlx5/cq.c, mlx5_cq_resize_copy_cqes()
  void Resize(uint8_t* ring, uint32_t log_depth, uint32_t cqe_bytes);

  /// Stops accepting completions and reports the error.
  void Fail();

  /// Handles the CQ doorbell of this queue's UAR page.
  ///
  /// @param named  whether the doorbell carried this queue's number. A later doorbell on the page may have
  ///               overwritten it, so queues that are not named check their record too.
  void OnArmDoorbell(bool named);

  const CqConfig& config() const { return config_; }
  uint32_t producer_index() const { return producer_index_; }
  bool failed() const { return failed_; }

 private:
  enum class Armed : uint8_t { kNo, kSolicited, kAny };

  uint32_t Unread();
  bool IsFull();
  bool Write(const Completion& completion);
  void Publish(uint8_t* entry, const uint64_t* words);
  void Remember(uint64_t upper, bool overwrites_error);
  bool PublishToDevice(uint8_t* entry, const uint64_t* words);
  void Announce();

  CqConfig config_;
  DeviceMemory* ring_device_;  ///< null: the ring is in processor memory
  uint32_t producer_index_ = 0;
  uint32_t consumer_index_ = 0;   ///< last value read
  uint32_t solicited_index_ = 0;  ///< past the last completion that counts as solicited
  mlx5::Be32 last_arm_{};
  uint32_t arm_sequence_ = 0;          ///< sequence number of the latest arm request
  std::optional<uint32_t> announced_;  ///< sequence number of the latest announced request
  bool unannounced_ = false;           ///< whether completions came since the latest announcement
  bool unannounced_solicited_ = false;
  Armed armed_ = Armed::kNo;
  bool failed_ = false;
  bool failed_last_ = false;    ///< whether the latest completion was an error
  uint64_t before_errors_ = 0;  ///< upper half that a collapsed CQE shows while an error is replaced
};

}  // namespace softhca
