#include "test_nic.hpp"

#include <atomic>
#include <cstring>

namespace warpverbs::inline v0_2::device {
namespace {

using mlx5::WqeOpcode;

constexpr uint32_t kSegmentsPerSlot = mlx5::kWqebbBytes / mlx5::kSegmentBytes;

template <class T>
T* Pointer(mlx5::Be64 address) {
  return reinterpret_cast<T*>(mlx5::FromBe(address));
}

uint32_t SlotsOf(uint32_t segments) { return (segments + kSegmentsPerSlot - 1) / kSegmentsPerSlot; }

/// Stores received data. Stores an aligned word atomically, because a thread may poll it.
void Store(void* to, const std::string& data) {
  if (data.size() == sizeof(uint64_t) && reinterpret_cast<uintptr_t>(to) % sizeof(uint64_t) == 0) {
    uint64_t word;
    std::memcpy(&word, data.data(), sizeof word);
    std::atomic_ref(*static_cast<uint64_t*>(to)).store(word, std::memory_order_release);
  } else {
    std::memcpy(to, data.data(), data.size());
  }
}

template <class T>
T FieldwiseSum(T word, T addend, T boundary) {
  T sum = 0, carry = 0;
  for (uint32_t bit = 0; bit < 8 * sizeof(T); ++bit) {
    const T ones = (word >> bit & 1) + (addend >> bit & 1) + carry;
    sum |= (ones & 1) << bit;
    carry = (boundary >> bit & 1) != 0 ? 0 : ones >> 1;
  }
  return sum;
}

template <class T>
T Native(T big_endian) {
  if constexpr (sizeof(T) == 8)
    return mlx5::FromBe(mlx5::Be64{big_endian});
  else
    return mlx5::FromBe(mlx5::Be32{big_endian});
}

}  // namespace

void TestNic::FailAt(uint32_t index, mlx5::Syndrome syndrome) {
  failing_ = true;
  fail_at_ = index;
  fail_with_ = syndrome;
}

bool TestNic::Step() {
  ReadDoorbell();
  if (next_ == rung_) return false;
  Execute();
  return true;
}

void TestNic::ReadDoorbell() {
  const uint64_t doorbell = std::atomic_ref(queue_.doorbell).load(std::memory_order_acquire);
  if (doorbell == doorbell_) return;
  doorbell_ = doorbell;
  ++doorbells_;
  const auto depth = static_cast<uint32_t>(queue_.ring.size());
  const uint32_t first = mlx5::FromBe(mlx5::Be32{static_cast<uint32_t>(doorbell)}) >> 8 & 0xffff;
  const uint32_t segments = mlx5::FromBe(mlx5::Be32{static_cast<uint32_t>(doorbell >> 32)}) & 0x3f;
  const uint32_t end = first + SlotsOf(segments);
  const uint32_t record =
      mlx5::FromBe(mlx5::Be32{std::atomic_ref(queue_.dbrec).load(std::memory_order_acquire)});
  Expect(static_cast<uint16_t>(record - end) <= depth, "the record covers the doorbell's WQE");
  if (fetch_ == FetchUpTo::kDoorbell) {
    const auto news = static_cast<uint16_t>(end - rung_);
    Expect(news >= 1 && news <= depth, "doorbells leave in order");
    rung_ += news;
    uint64_t start;
    std::memcpy(&start, queue_.ring[first % depth].bytes, sizeof start);
    Expect(start == doorbell, "a doorbell equals the start of the last WQE");
  } else {
    const auto news = static_cast<uint16_t>(record - rung_);
    Expect(news <= depth, "the record never goes back");
    rung_ += news;
  }
}

template <class Segment>
Segment TestNic::At(uint32_t segment) const {
  const uint32_t slot = next_ + segment / kSegmentsPerSlot;
  Segment value;
  std::memcpy(&value,
              queue_.ring[slot % queue_.ring.size()].bytes + segment % kSegmentsPerSlot * mlx5::kSegmentBytes,
              sizeof value);
  return value;
}

void TestNic::Execute() {
  const auto control = At<mlx5::CtrlSegment>(0);
  const uint32_t slots = SlotsOf(mlx5::FromBe(control.qpn_ds) & 0x3f);
  const auto opcode = static_cast<WqeOpcode>(mlx5::FromBe(control.opmod_index_opcode) & 0xff);
  Expect((mlx5::FromBe(control.opmod_index_opcode) >> 8 & 0xffff) == (next_ & 0xffff),
         "a WQE has its own index");
  Expect(mlx5::FromBe(control.qpn_ds) >> 8 == TestQueue::kQpn, "a WQE has its queue pair's number");
  Expect(slots >= 1 && rung_ - next_ >= slots, "doorbells cover whole WQEs");

  TestCqe cqe{.wqe_counter = static_cast<uint16_t>(next_), .wqe_opcode = opcode};
  if (failing_ && static_cast<int32_t>(next_ - fail_at_) >= 0) {
    cqe.opcode = mlx5::CqeOpcode::kRequesterError;
    cqe.syndrome = next_ == fail_at_ ? fail_with_ : mlx5::Syndrome::kFlushed;
    queue_.Complete(cqe);
  } else {
    CarryOut(opcode);
    done_.push_back(opcode);
    if ((control.fm_ce_se & mlx5::kCqeAlways) != 0) queue_.Complete(cqe);
  }
  next_ += slots == 0 ? 1 : slots;
}

void TestNic::CarryOut(WqeOpcode opcode) {
  const auto remote = At<mlx5::RemoteAddressSegment>(1);
  switch (opcode) {
    case WqeOpcode::kNop:
      return;
    case WqeOpcode::kDump:
      Expect(!Gather(1).empty(), "a dump names memory");
      return;
    case WqeOpcode::kSend:
    case WqeOpcode::kSendImm:
      sent_.push_back(Gather(1));
      return;
    default:
      break;
  }
  Expect(remote.rkey == kTestKey, "the rkey is right");
  switch (opcode) {
    case WqeOpcode::kRdmaWrite:
    case WqeOpcode::kRdmaWriteImm:
      Store(Pointer<void>(remote.address), Gather(2));
      return;
    case WqeOpcode::kRdmaRead:
      Scatter(2, Pointer<const char>(remote.address));
      return;
    case WqeOpcode::kAtomicCs:
    case WqeOpcode::kAtomicFa:
    case WqeOpcode::kAtomicMaskedCs:
    case WqeOpcode::kAtomicMaskedFa:
      return Atomic(opcode);
    default:
      Expect(false, "the opcode is known");
  }
}

/// Returns the data of the data segments from `first_segment` on.
std::string TestNic::Gather(uint32_t first_segment) {
  const uint32_t segments = mlx5::FromBe(At<mlx5::CtrlSegment>(0).qpn_ds) & 0x3f;
  std::string data;
  for (uint32_t i = first_segment; i < segments; ++i) {
    const auto entry = At<mlx5::DataSegment>(i);
    const uint32_t bytes = mlx5::FromBe(entry.bytes);
    if ((bytes & mlx5::kInlineFlag) != 0) {
      const auto* const slot = reinterpret_cast<const char*>(queue_.ring[next_ % queue_.ring.size()].bytes);
      return {slot + i * mlx5::kSegmentBytes + sizeof(mlx5::InlineSegment), bytes & ~mlx5::kInlineFlag};
    }
    Expect(entry.lkey == kTestKey && bytes != 0, "a data segment has the right lkey and a length");
    data.append(Pointer<const char>(entry.address), bytes);
  }
  return data;
}

/// Distributes fetched data over the data segments. Returns the number of bytes.
uint64_t TestNic::Scatter(uint32_t first_segment, const char* from) {
  const uint32_t segments = mlx5::FromBe(At<mlx5::CtrlSegment>(0).qpn_ds) & 0x3f;
  uint64_t taken = 0;
  for (uint32_t i = first_segment; i < segments; ++i) {
    const auto entry = At<mlx5::DataSegment>(i);
    const uint32_t bytes = mlx5::FromBe(entry.bytes);
    Expect(entry.lkey == kTestKey && bytes != 0, "a data segment has the right lkey and a length");
    Store(Pointer<void>(entry.address), {from + taken, bytes});
    taken += bytes;
  }
  return taken;
}

void TestNic::Atomic(WqeOpcode opcode) {
  const auto opmod =
      static_cast<mlx5::AtomicOpmod>(mlx5::FromBe(At<mlx5::CtrlSegment>(0).opmod_index_opcode) >> 24);
  const bool masked = opcode == WqeOpcode::kAtomicMaskedCs || opcode == WqeOpcode::kAtomicMaskedFa;
  Expect(masked != (opmod == mlx5::AtomicOpmod::kPlain),
         "masked atomics have a size in their opmod, plain ones do not");
  if (opmod == mlx5::AtomicOpmod::kExtended4) {
    AtomicOf<uint32_t>(opcode);
  } else {
    AtomicOf<uint64_t>(opcode);
  }
}

template <class T>
void TestNic::AtomicOf(WqeOpcode opcode) {
  constexpr uint32_t kPerSegment = mlx5::kSegmentBytes / sizeof(T);
  const uint32_t operands = opcode == WqeOpcode::kAtomicMaskedCs ? 4 : 2;
  T operand[4] = {0, 0, static_cast<T>(~T{0}), static_cast<T>(~T{0})};
  struct Words {
    T word[kPerSegment];
  };
  for (uint32_t i = 0; i < operands; ++i)
    operand[i] = Native(At<Words>(2 + i / kPerSegment).word[i % kPerSegment]);

  const auto address = At<mlx5::RemoteAddressSegment>(1).address;
  Expect(mlx5::FromBe(address) % sizeof(T) == 0, "an atomic's address is aligned");
  std::atomic_ref word(*Pointer<T>(address));
  const T old = word.load(std::memory_order_acquire);
  T next = FieldwiseSum(old, operand[0], opcode == WqeOpcode::kAtomicFa ? T{0} : operand[1]);
  if (opcode == WqeOpcode::kAtomicCs || opcode == WqeOpcode::kAtomicMaskedCs) {
    const bool equal = ((old ^ operand[1]) & operand[3]) == 0;
    next = equal ? (old & ~operand[2]) | (operand[0] & operand[2]) : old;
  }
  word.store(next, std::memory_order_release);
  const uint32_t operand_segments = (operands + kPerSegment - 1) / kPerSegment;
  const uint64_t fetched = Scatter(2 + operand_segments, reinterpret_cast<const char*>(&old));
  Expect(fetched == sizeof old, "the local buffer has the size of the fetched value");
}

void TestNic::Expect(bool condition, const char* rule) {
  if (!condition && violation_.empty()) violation_ = "at " + std::to_string(next_) + ": broken rule: " + rule;
}

}  // namespace warpverbs::inline v0_2::device
