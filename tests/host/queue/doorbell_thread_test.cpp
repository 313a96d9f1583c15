#include "warpverbs/host/doorbell_thread.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "common/no_threads.hpp"
#include "queue/doorbell_service.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/mlx5/doorbell.hpp"
#include "warpverbs/mlx5/wqe.hpp"

namespace warpverbs::host {
namespace {

using arch::Cpu;

constexpr uint64_t kDeadlineNs = 60'000'000'000;
constexpr uint32_t kDepth = 8;

uint64_t Doorbell(uint32_t index, uint32_t wqebbs = 1) {
  const mlx5::Be32 words[2] = {mlx5::ToBe32((index & 0xffff) << 8 | 0x08),
                               mlx5::ToBe32(5u << 8 | wqebbs * 4)};
  uint64_t doorbell = 0;
  std::memcpy(&doorbell, words, sizeof doorbell);
  return doorbell;
}

template <class Condition>
bool Await(const Condition& condition) {
  for (const uint64_t deadline = Cpu::NowNs() + kDeadlineNs; !condition();) {
    if (Cpu::NowNs() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

/// A poster's doorbell word and the NIC's view of it.
struct Queue {
  uint64_t word = 0;
  uint64_t doorbell = 0;
  uint32_t dbrec = 0;
  std::array<uint64_t, kDepth * 8> staging{};
  std::array<uint64_t, kDepth * 8> sq{};

  DoorbellRoute Route() { return {.word = &word, .doorbell = &doorbell}; }
  DoorbellRoute Posted() {
    return {.word = &word,
            .doorbell = &doorbell,
            .staging = reinterpret_cast<const uint8_t*>(staging.data()),
            .sq = reinterpret_cast<uint8_t*>(sq.data()),
            .dbrec = &dbrec,
            .depth = kDepth};
  }

  void Write(uint32_t index) { staging[index % kDepth * 8] = index + 1; }
  void Ring(uint64_t value) { Cpu::StoreReleaseMmio(&word, mlx5::Be64{value}, arch::Mmio::kUncached); }
  bool AwaitDoorbell(uint64_t value) {
    return Await([&] { return Cpu::Load(&doorbell) == value; });
  }
};

TEST(DoorbellThread, ForwardsEachDoorbell) {
  Queue queue;
  DoorbellThread thread;
  const DoorbellService service(thread, queue.Route());
  for (uint32_t index = 0; index < 1000; ++index) {
    queue.Ring(Doorbell(index));
    ASSERT_TRUE(queue.AwaitDoorbell(Doorbell(index)));
  }
}

TEST(DoorbellThread, ReportsThatNoThreadCanStart) {
  std::string what;
  try {
    const tests::NoThreads none;
    const DoorbellThread thread;
  } catch (const Error& error) {
    what = error.what();
  }
  EXPECT_NE(what.find("Cannot start a thread that rings doorbells: "), std::string::npos) << what;
  EXPECT_NE(what.find("EndpointConfig::doorbell_thread"), std::string::npos) << what;
}

TEST(DoorbellThread, ForwardsADoorbellEqualToThePreviousOne) {
  // The index has 16 bits, so the same value comes again 65536 posts later.
  Queue queue;
  DoorbellThread thread;
  const DoorbellService service(thread, queue.Route());
  for (int round = 0; round < 3; ++round) {
    Cpu::Store(&queue.doorbell, 0);
    queue.Ring(Doorbell(7));
    ASSERT_TRUE(queue.AwaitDoorbell(Doorbell(7)));
  }
}

TEST(DoorbellThread, WakesUpForADoorbellAfterAPause) {
  Queue queue;
  DoorbellThread thread;
  const DoorbellService service(thread, queue.Route());
  const uint64_t idle_until = Cpu::NowNs() + 20'000'000;
  ASSERT_TRUE(Await([&] { return Cpu::NowNs() > idle_until; }));
  queue.Ring(Doorbell(1));
  EXPECT_TRUE(queue.AwaitDoorbell(Doorbell(1)));
}

TEST(DoorbellThread, CopiesWqesBeforeItRings) {
  // The test acts as the NIC: after the doorbell it reads queue and record. Batches of 1 to 3 WQEs wrap
  // around the ring and the 16-bit index.
  Queue queue;
  DoorbellThread thread;
  const DoorbellService service(thread, queue.Posted());
  uint32_t end = 0;
  while (end < 70'000) {
    const uint32_t first = end;
    for (end += 1 + first % 3; uint32_t index : {first, first + 1, first + 2}) {
      if (index < end) queue.Write(index);
    }
    queue.Ring(Doorbell(end - 1));
    ASSERT_TRUE(queue.AwaitDoorbell(Doorbell(end - 1)));
    ASSERT_EQ(queue.dbrec, mlx5::ToBe32(end & 0xffff).raw);
    for (uint32_t index = first; index < end; ++index) ASSERT_EQ(queue.sq[index % kDepth * 8], index + 1);
  }
}

TEST(DoorbellThread, CopiesAllWqebbsOfTheLastWqe) {
  Queue queue;
  DoorbellThread thread;
  const DoorbellService service(thread, queue.Posted());
  for (uint32_t index = 0; index < 5; ++index) queue.Write(index);
  queue.Ring(Doorbell(2, 3));  // a WQE of three WQEBBs from index 2
  ASSERT_TRUE(queue.AwaitDoorbell(Doorbell(2, 3)));
  EXPECT_EQ(queue.dbrec, mlx5::ToBe32(5).raw);
  EXPECT_EQ(queue.sq[4 * 8], 5);
  EXPECT_EQ(queue.sq[5 * 8], 0);
}

TEST(DoorbellThread, ServesQueuesThatComeAndGo) {
  constexpr uint32_t kRounds = 300;
  DoorbellThread thread;
  Queue steady;
  const DoorbellService service(thread, steady.Route());
  std::jthread guests([&] {
    for (uint32_t i = 0; i < kRounds; ++i) {
      auto guest = std::make_unique<Queue>();  // freed as soon as it is unregistered
      std::optional<DoorbellService> guest_service(std::in_place, thread, guest->Route());
      guest->Ring(Doorbell(i));
      EXPECT_TRUE(guest->AwaitDoorbell(Doorbell(i)));
    }
  });
  for (uint32_t i = 0; i < kRounds; ++i) {
    steady.Ring(Doorbell(i));
    ASSERT_TRUE(steady.AwaitDoorbell(Doorbell(i)));
  }
}

TEST(DoorbellThread, DoesNotRingAfterUnregistering) {
  Queue queue, other;
  DoorbellThread thread;
  { const DoorbellService service(thread, queue.Route()); }
  const DoorbellService service(thread, other.Route());
  queue.Ring(Doorbell(1));
  other.Ring(Doorbell(2));
  ASSERT_TRUE(other.AwaitDoorbell(Doorbell(2)));
  EXPECT_EQ(Cpu::Load(&queue.doorbell), 0);
}

TEST(DoorbellThread, StopsWhileAsleep) {
  for (int i = 0; i < 20; ++i) DoorbellThread thread;
}

}  // namespace
}  // namespace warpverbs::host
