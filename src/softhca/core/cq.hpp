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
  uint32_t uar_page = 0;
  std::vector<uint32_t> umems{};          ///< what the pointers above point into, if by DEVX
  std::function<void()> on_completion{};  ///< an armed queue got a completion
  std::function<void()> on_error{};       ///< the queue overran
};

/// What a completion says; the queue adds where it goes and the owner bit.
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
  std::optional<mlx5::CqeL3Header> l3_header{};     ///< of datagrams
  mlx5::Syndrome syndrome = mlx5::Syndrome::kNone;  ///< with the error opcodes only
  std::optional<uint8_t> vendor_syndrome{};         ///< the one that goes with the syndrome, unless given
};

/// Writes completions to a program's ring and announces them when the program asked for it.
class CompletionQueue {
 public:
  explicit CompletionQueue(CqConfig config);

  /// @return  false if the queue is overrun or its memory gone: the completion is lost, as on hardware; or if
  ///          data never came: then it is written as an error
  bool Push(const Completion& completion);

  /// Takes no completion any more, and announces that.
  void Fail();

  /// The program rang the CQ doorbell of the page that this queue uses. `named`: the doorbell carried this
  /// queue's number; a later one on the same page may have overwritten it, so unnamed queues look at their
  /// record.
  void OnArmDoorbell(bool named);

  const CqConfig& config() const { return config_; }
  uint32_t producer_index() const { return producer_index_; }
  bool failed() const { return failed_; }

 private:
  enum class Armed : uint8_t { kNo, kSolicited, kAny };

  bool IsFull();
  bool Write(const Completion& completion);
  void Publish(uint8_t* entry, const uint64_t* words);
  void Remember(uint64_t upper, bool overwrites_error);
  bool PublishToDevice(uint8_t* entry, const uint64_t* words);
  void Announce();

  CqConfig config_;
  DeviceMemory* ring_device_;  ///< null: the processor writes completions itself
  uint32_t producer_index_ = 0;
  uint32_t consumer_index_ = 0;   ///< when it was last looked at
  uint32_t solicited_index_ = 0;  ///< past the last completion that wakes a waiter for solicited events
  mlx5::Be32 last_arm_{};
  uint32_t arm_sequence_ = 0;          ///< of the latest request
  std::optional<uint32_t> announced_;  ///< the sequence number of the latest request that was answered
  bool unannounced_ = false;           ///< completions came since the latest announcement
  bool unannounced_solicited_ = false;
  Armed armed_ = Armed::kNo;
  bool failed_ = false;
  bool failed_last_ = false;    ///< the latest completion was an error
  uint64_t before_errors_ = 0;  ///< what a collapsed queue's entry shows while an error takes another's place
};

}  // namespace softhca
