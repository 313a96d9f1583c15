#include "core/cq.hpp"

#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "dma/copy.hpp"

namespace softhca {
namespace {

constexpr mlx5::Be32 kNeverArmed{0xffffffff};

/// Returns the detail code that goes with a syndrome; 0 where no report was found.
///
/// Informative only: the codes are those that users of ConnectX cards report.
///
/// @source  issues 173 of perftest, 2532 of charm, 2973 and 5472 of ucx
uint8_t VendorSyndrome(mlx5::Syndrome syndrome) {
  switch (syndrome) {
    case mlx5::Syndrome::kLocalProtection:
      return 0x51;
    case mlx5::Syndrome::kTransportRetryExceeded:
      return 0x81;
    case mlx5::Syndrome::kRemoteAccess:
      return 0x88;
    case mlx5::Syndrome::kRemoteOperation:
      return 0x89;
    case mlx5::Syndrome::kRemoteInvalidRequest:
      return 0x8a;
    case mlx5::Syndrome::kFlushed:
      return 0xf9;
    default:
      return 0;
  }
}

bool IsError(mlx5::CqeOpcode opcode) {
  return opcode == mlx5::CqeOpcode::kRequesterError || opcode == mlx5::CqeOpcode::kResponderError;
}

/// Second half of a CQE's tail.
struct UpperHalf {
  mlx5::Be32 sop_qpn;
  mlx5::Be16 wqe_counter;
  uint8_t signature;
  uint8_t op_own;
};

bool IsError(const UpperHalf& upper) { return IsError(static_cast<mlx5::CqeOpcode>(upper.op_own >> 4)); }

/// Returns the upper half that a collapsed CQE shows while an error CQE is overwritten: no completion, and a
/// WQE counter just before the first error.
UpperHalf BeforeError(UpperHalf upper) {
  upper.op_own |= static_cast<uint8_t>(mlx5::CqeOpcode::kInvalid) << 4;
  upper.wqe_counter = mlx5::ToBe16(static_cast<uint16_t>(mlx5::FromBe(upper.wqe_counter) - 1));
  return upper;
}

/// Turns a completion whose data did not arrive into an error completion.
Completion AsDataLoss(Completion completion) {
  if (IsError(completion.opcode)) return completion;
  const bool sent = completion.opcode == mlx5::CqeOpcode::kRequester;
  completion.opcode = sent ? mlx5::CqeOpcode::kRequesterError : mlx5::CqeOpcode::kResponderError;
  completion.syndrome = mlx5::Syndrome::kLocalProtection;
  return completion;
}

mlx5::Be64 Now() {
  return mlx5::ToBe64(static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()));
}

}  // namespace

CompletionQueue::CompletionQueue(CqConfig config)
    : config_(std::move(config)), ring_device_(DeviceOf(config_.ring)), last_arm_(kNeverArmed) {
  // The first arm request is all zeros, like a new record. Start from a value that no request has. In a
  // record that must not be written, only the doorbell tells that request from none.
  uint32_t& arm = config_.dbr->arm.raw;
  if (!config_.writes_record) {
    last_arm_.raw = LoadWord(arm).value_or(kNeverArmed.raw);
    return;
  }
  if (DeviceMemory* const device = DeviceOf(&arm)) {
    const uint32_t value = kNeverArmed.raw;
    failed_ = !device->Write(reinterpret_cast<uint8_t*>(&arm), reinterpret_cast<const uint8_t*>(&value),
                             sizeof value);
  } else {
    std::atomic_ref(arm).store(kNeverArmed.raw, std::memory_order_release);
  }
}

/// Returns the number of completions that the program has not read yet.
uint32_t CompletionQueue::Unread() {
  const std::optional<uint32_t> record = LoadWord(config_.dbr->consumer_index.raw);
  if (record) consumer_index_ = mlx5::FromBe(mlx5::Be32{*record});
  return (producer_index_ - consumer_index_) & mlx5::kCqDbrIndexMask;
}

/// If the consumer index is in device memory, reads it only when the queue seems full: the read is expensive.
bool CompletionQueue::IsFull() {
  const uint32_t depth = 1u << config_.log_depth;
  const bool seems_full = ((producer_index_ - consumer_index_) & mlx5::kCqDbrIndexMask) >= depth;
  if (DeviceOf(config_.dbr) != nullptr && !seems_full) return false;
  return Unread() >= depth;
}

bool CompletionQueue::Push(const Completion& completion) {
  if (failed_) return false;
  // The processor must not announce data that is still on its way to or from a device.
  const bool complete = ring_device_ != nullptr || WaitForCopies();
  if ((!config_.ignore_overrun && IsFull()) || !Write(complete ? completion : AsDataLoss(completion))) {
    Fail();
    return false;
  }
  ++producer_index_;
  // Both indices are compared modulo 2^24, so neither may fall behind by half of that.
  constexpr uint32_t kFarBehind = mlx5::kCqDbrIndexMask / 4;
  if (producer_index_ - solicited_index_ > kFarBehind) solicited_index_ = producer_index_ - kFarBehind;
  const bool solicited = completion.solicited || IsError(completion.opcode);
  if (solicited) solicited_index_ = producer_index_;
  unannounced_ = true;
  unannounced_solicited_ |= solicited;
  if (armed_ == Armed::kAny || (armed_ == Armed::kSolicited && solicited)) Announce();
  return complete;
}

void CompletionQueue::Resize(uint8_t* ring, uint32_t log_depth, uint32_t cqe_bytes) {
  if (failed_) throw CommandError(mlx5::CommandStatus::kBadResourceState, "the completion queue has overrun");
  const uint32_t unread = Unread();
  if (unread >= 1u << config_.log_depth || unread > 1u << log_depth) {
    throw CommandError(mlx5::CommandStatus::kBadCqSize,
                       "the completion queue holds " + std::to_string(unread) +
                           " completions, too many to be resized; poll it first");
  }
  if (!Write({.opcode = mlx5::CqeOpcode::kResize})) {
    Fail();
    throw CommandError(mlx5::CommandStatus::kBadResourceState, "the completion queue's memory is gone");
  }
  ++producer_index_;
  ++solicited_index_;  // the completions before it have moved by one
  config_.ring = ring;
  config_.log_depth = log_depth;
  config_.cqe_bytes = cqe_bytes;
  ring_device_ = DeviceOf(ring);
}

void CompletionQueue::Fail() {
  if (std::exchange(failed_, true)) return;
  if (config_.on_error) config_.on_error();
}

/// @return  false if the program has freed the ring's memory
bool CompletionQueue::Write(const Completion& completion) {
  union {
    mlx5::Cqe64 ok;
    mlx5::ErrorCqe64 error;
    uint64_t words[8];
  } cqe{};
  cqe.ok.srqn_uidx = mlx5::ToBe32(completion.user_index);
  cqe.ok.sop_qpn = mlx5::ToBe32(uint32_t{completion.wqe_opcode} << 24 | completion.qpn);
  cqe.ok.wqe_counter = mlx5::ToBe16(completion.wqe_index);
  if (IsError(completion.opcode)) {
    cqe.error.syndrome = static_cast<uint8_t>(completion.syndrome);
    cqe.error.vendor_syndrome = completion.vendor_syndrome.value_or(VendorSyndrome(completion.syndrome));
  } else {
    const uint32_t header =
        completion.l3_header ? mlx5::kCqeHasL3Header | static_cast<uint32_t>(*completion.l3_header) << 24 : 0;
    const uint32_t level = uint32_t{completion.service_level} << 24;  // Ethernet has the header's kind there
    cqe.ok.flags_rqpn = mlx5::ToBe32(header | level | (completion.remote_qpn & 0xffffff));
    cqe.ok.slid = mlx5::ToBe16(completion.slid);
    cqe.ok.imm = completion.imm;
    cqe.ok.byte_count = mlx5::ToBe32(completion.bytes);
    cqe.ok.timestamp = Now();
  }
  const auto owner = static_cast<uint8_t>(producer_index_ >> config_.log_depth & 1);
  cqe.ok.op_own =
      static_cast<uint8_t>(static_cast<uint32_t>(completion.opcode) << 4 | completion.solicited << 1 | owner);

  const uint32_t slot = config_.collapsed ? 0 : producer_index_ & ((1u << config_.log_depth) - 1);
  uint8_t* const entry = config_.ring + size_t{slot} * config_.cqe_bytes + (config_.cqe_bytes - sizeof cqe);
  if (ring_device_ != nullptr) return PublishToDevice(entry, cqe.words);
  Publish(entry, cqe.words);
  return true;
}

/// Writes a CQE so that a poller never sees a mixed one.
///
/// A card writes the tail at once; here it takes two stores, so a poller can see the old upper half with the
/// new lower half. The lower half matters only in an error CQE, and only a collapsed queue overwrites a CQE
/// that the program may still read. In that case the upper half stops being an error first.
void CompletionQueue::Publish(uint8_t* entry, const uint64_t* words) {
  auto* const tail = reinterpret_cast<uint64_t*>(entry + mlx5::kCqeTailOffset);
  std::memcpy(entry, words, mlx5::kCqeTailOffset);
  std::atomic_ref upper(tail[1]);
  const bool overwrites = IsError(std::bit_cast<UpperHalf>(upper.load(std::memory_order_relaxed)));
  if (config_.collapsed && overwrites) upper.store(before_errors_, std::memory_order_relaxed);
  Remember(words[7], overwrites);
  std::atomic_ref(tail[0]).store(words[6], std::memory_order_release);
  upper.store(words[7], std::memory_order_release);  // opcode and owner last
}

/// Does the same through the device's driver.
bool CompletionQueue::PublishToDevice(uint8_t* entry, const uint64_t* words) {
  constexpr size_t kUpper = mlx5::kCqeTailOffset + sizeof(uint64_t);
  const auto* const bytes = reinterpret_cast<const uint8_t*>(words);
  bool overwrites = config_.collapsed && failed_last_;
  if (overwrites) {
    UpperHalf old;
    if (!ring_device_->Read(reinterpret_cast<uint8_t*>(&old), entry + kUpper, sizeof old)) return false;
    overwrites = IsError(old);  // the program may have reset it
    const auto* const before = reinterpret_cast<const uint8_t*>(&before_errors_);
    if (overwrites && !ring_device_->Write(entry + kUpper, before, sizeof before_errors_)) return false;
  }
  Remember(words[7], overwrites);
  return ring_device_->Write(entry, bytes, kUpper) &&
         ring_device_->Write(entry + kUpper, bytes + kUpper, sizeof(uint64_t));
}

/// Records the upper half to show while an error is overwritten. The flushes that follow an error leave it
/// unchanged: none of their WQEs was executed.
void CompletionQueue::Remember(uint64_t upper, bool overwrites_error) {
  const auto half = std::bit_cast<UpperHalf>(upper);
  failed_last_ = IsError(half);
  if (failed_last_ && !overwrites_error) before_errors_ = std::bit_cast<uint64_t>(BeforeError(half));
}

void CompletionQueue::OnArmDoorbell(bool named) {
  const mlx5::Be32 arm{LoadWord(config_.dbr->arm.raw).value_or(kNeverArmed.raw)};
  if (arm == kNeverArmed || (!named && arm == last_arm_)) return;
  last_arm_ = arm;
  const uint32_t request = mlx5::FromBe(arm);
  const uint32_t sequence = request >> 28 & 3;
  if (announced_ == sequence) return;  // one announcement per arm sequence number
  arm_sequence_ = sequence;
  const bool solicited_only = (request & mlx5::kArmSolicitedOnly) != 0;
  // A queue that waits for any completion keeps waiting for any.
  if (armed_ != Armed::kAny) armed_ = solicited_only ? Armed::kSolicited : Armed::kAny;
  // Announce at once a completion that came before the request, if the program has neither seen it nor been
  // told of it. If it was announced already, a program that arms before it polls, as perftest does, would be
  // woken for nothing.
  const bool any = armed_ == Armed::kAny;
  const uint32_t ahead = ((any ? producer_index_ : solicited_index_) - request) & mlx5::kCqDbrIndexMask;
  const bool unseen = ahead != 0 && ahead <= mlx5::kCqDbrIndexMask / 2;
  if (unseen && (any ? unannounced_ : unannounced_solicited_)) Announce();
}

void CompletionQueue::Announce() {
  if (ring_device_ != nullptr)
    (void)ring_device_->Synchronize();  // the woken program must find the completion
  armed_ = Armed::kNo;
  announced_ = arm_sequence_;
  unannounced_ = unannounced_solicited_ = false;
  if (config_.on_completion) config_.on_completion();
}

}  // namespace softhca
