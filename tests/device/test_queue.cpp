#include "test_queue.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <cstring>

namespace warpverbs::device {
namespace {

/// A queue that starts later than at 0 looks as if the WQE before were complete.
mlx5::Cqe64 FreshCqe(uint32_t start) {
  mlx5::Cqe64 cqe;
  std::memset(&cqe, 0xff, sizeof cqe);
  cqe.wqe_counter = mlx5::ToBe16(static_cast<uint16_t>(start - 1));
  return cqe;
}

template <class T>
T Read(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
T* Pointer(mlx5::Be64 address) {
  return reinterpret_cast<T*>(mlx5::FromBe(address));
}

}  // namespace

TestQueue::TestQueue(uint32_t depth, uint32_t start)
    : ring(depth), cqe(FreshCqe(start)), control{.tail = uint64_t{start} << 32 | start, .error = 0} {}

QueueView TestQueue::View() {
  return {.sq = ring.front().bytes,
          .doorbell = &doorbell,
          .dbrec = &dbrec,
          .cqe = reinterpret_cast<const uint8_t*>(&cqe),
          .control = &control,
          .qpn_be = mlx5::ToBe32(kQpn << 8).raw,
          .depth = static_cast<uint32_t>(ring.size())};
}

void WriteCqe(mlx5::Cqe64& cqe, const TestCqe& content) {
  mlx5::ErrorCqe64 image{};
  if (content.syndrome != mlx5::Syndrome::kNone) {
    image.syndrome = static_cast<uint8_t>(content.syndrome);
    image.vendor_syndrome = kVendorSyndrome;
  }
  image.wqe_counter = mlx5::ToBe16(content.wqe_counter);
  image.op_own = static_cast<uint8_t>(static_cast<uint32_t>(content.opcode) << 4 | content.owner);
  const auto words = std::bit_cast<std::array<uint64_t, 8>>(image);
  auto* const target = reinterpret_cast<uint64_t*>(&cqe);
  std::atomic_ref(target[6]).store(words[6], std::memory_order_relaxed);
  std::atomic_ref(target[7]).store(words[7], std::memory_order_release);
}

void TestNic::FailAt(uint32_t index, mlx5::Syndrome syndrome) {
  failing_ = true;
  fail_at_ = index;
  fail_with_ = syndrome;
}

bool TestNic::Step() {
  ReadDoorbell();
  if (next_ == rung_) return false;
  Execute(queue_.ring[next_ % queue_.ring.size()].bytes);
  ++next_;
  return true;
}

void TestNic::ReadDoorbell() {
  const uint64_t doorbell = std::atomic_ref(queue_.doorbell).load(std::memory_order_acquire);
  if (doorbell == doorbell_) return;
  doorbell_ = doorbell;
  const uint32_t last = mlx5::FromBe(mlx5::Be32{static_cast<uint32_t>(doorbell)}) >> 8 & 0xffff;
  const uint32_t record =
      mlx5::FromBe(mlx5::Be32{std::atomic_ref(queue_.dbrec).load(std::memory_order_acquire)});
  const auto news = static_cast<uint16_t>(last + 1 - rung_);
  Expect(news >= 1 && news <= queue_.ring.size(), "doorbells leave in order");
  Expect(static_cast<int16_t>(record - (last + 1)) >= 0, "the record covers what the doorbell rings for");
  rung_ += news;
  const auto& slot = queue_.ring[(rung_ - 1) % queue_.ring.size()];
  Expect(Read<uint64_t>(slot.bytes) == doorbell, "a doorbell is the start of the last WQE");
}

void TestNic::Execute(const uint8_t* wqe) {
  const auto control = Read<mlx5::CtrlSegment>(wqe);
  Expect((mlx5::FromBe(control.opmod_index_opcode) >> 8 & 0xffff) == (next_ & 0xffff),
         "a WQE has its own index");
  Expect(mlx5::FromBe(control.qpn_ds) >> 8 == TestQueue::kQpn, "a WQE has its queue pair's number");

  const auto counter = static_cast<uint16_t>(next_);
  if (failing_ && static_cast<int32_t>(next_ - fail_at_) >= 0) {
    const auto syndrome = next_ == fail_at_ ? fail_with_ : mlx5::Syndrome::kFlushed;
    WriteCqe(queue_.cqe, {mlx5::CqeOpcode::kRequesterError, counter, syndrome});
    return;
  }
  Write(wqe, control);
  if ((control.fm_ce_se & mlx5::kCqeAlways) != 0) WriteCqe(queue_.cqe, {.wqe_counter = counter});
}

void TestNic::Write(const uint8_t* wqe, const mlx5::CtrlSegment& control) {
  const auto opcode = static_cast<mlx5::WqeOpcode>(mlx5::FromBe(control.opmod_index_opcode) & 0xff);
  Expect(opcode == mlx5::WqeOpcode::kRdmaWrite || opcode == mlx5::WqeOpcode::kRdmaWriteImm,
         "only writes come");
  const auto remote = Read<mlx5::RemoteAddressSegment>(wqe + 16);
  Expect(remote.rkey == kKey, "the rkey is right");
  if ((mlx5::FromBe(control.qpn_ds) & 0x3f) == 2) return;  // an empty message
  const auto data = Read<mlx5::DataSegment>(wqe + 32);
  const uint32_t bytes = mlx5::FromBe(data.bytes);
  if ((bytes & mlx5::kInlineFlag) != 0) {
    std::memcpy(Pointer<void>(remote.address), wqe + 36, bytes & ~mlx5::kInlineFlag);
    return;
  }
  Expect(data.lkey == kKey, "the lkey is right");
  std::memcpy(Pointer<void>(remote.address), Pointer<const void>(data.address), bytes);
}

void TestNic::Expect(bool condition, const char* rule) {
  if (!condition && violation_.empty()) violation_ = "at " + std::to_string(next_) + ": not so: " + rule;
}

}  // namespace warpverbs::device
