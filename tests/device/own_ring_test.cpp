// Send queues with a ring of CQEs of their own. Nobody gives CQEs back; each thread looks where its CQE
// should be.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <random>
#include <vector>

#include "common/repetitions.hpp"
#include "many_writes.hpp"
#include "nic_thread.hpp"
#include "together.hpp"
#include "warpverbs/device/atomics.hpp"
#include "warpverbs/device/send_queue.hpp"

namespace warpverbs::device {
namespace {

using arch::Cpu;
using mlx5::Syndrome;

constexpr auto kRemoteAccess = static_cast<uint8_t>(Syndrome::kRemoteAccess);

void StepAll(TestNic& nic) {
  while (nic.Step()) {
  }
  EXPECT_EQ(nic.violation(), "");
}

/// A processor that counts what it loads of CQEs.
struct CqeCountingCpu : Cpu {
  static inline thread_local uint32_t cqe_loads = 0;

  static arch::CqeTail LoadCqeTail(const uint8_t* tail) {
    ++cqe_loads;
    return Cpu::LoadCqeTail(tail);
  }
};

/// A processor whose NIC moves while it looks: before each load of a CQE.
struct MovingCpu : Cpu {
  static inline std::function<void()> move;

  static arch::CqeTail LoadCqeTail(const uint8_t* tail) {
    if (move) move();
    return Cpu::LoadCqeTail(tail);
  }
};

template <class Sharing>
class OwnRing : public testing::Test {
 protected:
  using Queue = SendQueue<Cpu, Sharing>;
  using MovingQueue = SendQueue<MovingCpu, Sharing>;

  ~OwnRing() override { MovingCpu::move = nullptr; }
  using CountingQueue = SendQueue<CqeCountingCpu, Sharing>;

  uint64_t from_ = 42, to_ = 0;
};

using Sharings = testing::Types<Exclusive, Shared, Contended>;
TYPED_TEST_SUITE(OwnRing, Sharings);

TYPED_TEST(OwnRing, CompletesAllWrites) {
  for (const uint32_t start : {0U, 65536U - 30, 0U - 30}) {
    for (const uint32_t cq_depth : {4U, 16U}) {
      SCOPED_TRACE(std::to_string(start) + ", " + std::to_string(cq_depth) + " CQEs");
      TestCq cq(cq_depth, start);
      TestQueue memory(4, start, &cq);
      TestNic nic(memory, start);
      ExpectManyWrites<TypeParam>(memory, nic);
      EXPECT_EQ(memory.control.error, 0U);
    }
  }
}

TYPED_TEST(OwnRing, ReportsTheCauseToAllLaterTickets) {
  for (const uint32_t before : {0U, 3U, 7U}) {
    for (const uint32_t position : {0U, 1U, 2U, 3U}) {
      SCOPED_TRACE(std::to_string(before) + " before, the failure at " + std::to_string(position));
      TestCq cq(4);
      TestQueue memory(4, 0, &cq);
      TestNic nic(memory);
      nic.FailAt(before + position, Syndrome::kRemoteAccess);
      typename TestFixture::Queue queue(ViewFor<TypeParam>(memory));
      for (uint32_t i = 0; i < before; ++i) {
        ASSERT_TRUE(queue.Post(Nop()).status.ok());
        StepAll(nic);
      }
      std::vector<Ticket> tickets;
      for (int i = 0; i < 4; ++i)
        tickets.push_back(queue.Post(Write(Remote(this->to_), Local(this->from_))).ticket);
      StepAll(nic);  // also writes the flushes: a collapsed CQ would show only the last
      for (uint32_t i = 4; i-- > 0;) {
        const Status status = queue.Test(tickets[i]);
        if (i < position) {
          EXPECT_TRUE(status.ok()) << i;
        } else {
          EXPECT_EQ(status.code, Code::kError);
          EXPECT_EQ(status.syndrome, kRemoteAccess) << i;
          EXPECT_EQ(status.wqe_index, before + position);
        }
      }
      EXPECT_EQ(queue.Post(Nop()).status.syndrome, kRemoteAccess);
      EXPECT_EQ(memory.host_error, memory.control.error);
      typename TestFixture::Queue other(ViewFor<TypeParam>(memory));
      EXPECT_EQ(other.Flush({}).wqe_index, before + position) << "a thread that saw nothing before";
    }
  }
}

TYPED_TEST(OwnRing, SearchesTheCauseBehindUnsignalledPosts) {
  TestCq cq(8);
  TestQueue memory(8, 0, &cq);
  TestNic nic(memory);
  nic.FailAt(2, Syndrome::kRemoteAccess);
  typename TestFixture::Queue queue(ViewFor<TypeParam>(memory));
  std::vector<Ticket> tickets;
  for (uint32_t i = 0; i < 6; ++i)
    tickets.push_back(queue.Post(Nop(), {}, i == 5 ? uint32_t{mlx5::kCqeAlways} : 0).ticket);
  StepAll(nic);  // even an unsignalled WQE reports its error and its flush
  for (uint32_t i = 0; i < 6; ++i) {
    const Status status = queue.Test(tickets[i]);
    EXPECT_EQ(status.ok(), i < 2) << i;
    if (!status.ok()) {
      EXPECT_EQ(status.syndrome, kRemoteAccess);
    }
  }
}

TYPED_TEST(OwnRing, FindsFreeSlotsAsSoonAsTheyAreFree) {
  for (const uint32_t unsignalled : {0U, 1U, 3U}) {
    TestCq cq(8);
    TestQueue memory(8, 0, &cq);
    TestNic nic(memory);
    typename TestFixture::Queue queue(ViewFor<TypeParam>(memory));
    for (uint32_t i = 0; i < 400; ++i) {
      const uint32_t flags = i % (unsignalled + 1) == unsignalled ? mlx5::kCqeAlways : 0;
      Posted posted = queue.Post(Nop(), {}, flags);
      if (i >= 8 && i % (unsignalled + 1) == 0) {
        ASSERT_EQ(posted.status.code, Code::kFull) << i;
        for (uint32_t freed = 0; freed <= unsignalled; ++freed) ASSERT_TRUE(nic.Step());
        posted = queue.Post(Nop(), {}, flags);
      }
      ASSERT_TRUE(posted.status.ok()) << i;
    }
    EXPECT_EQ(nic.violation(), "");
  }
}

TYPED_TEST(OwnRing, LoadsOneCqeForEachWait) {
  TestCq cq(16);
  TestQueue memory(16, 0, &cq);
  TestNic nic(memory);
  typename TestFixture::CountingQueue queue(ViewFor<TypeParam>(memory));
  for (int i = 0; i < 100; ++i) {
    std::vector<Ticket> tickets;
    for (int j = 0; j < 5; ++j) tickets.push_back(queue.Post(Nop()).ticket);
    StepAll(nic);
    CqeCountingCpu::cqe_loads = 0;
    for (const Ticket ticket : tickets) ASSERT_TRUE(queue.Test(ticket).ok());
    EXPECT_EQ(CqeCountingCpu::cqe_loads, 5U);
    CqeCountingCpu::cqe_loads = 0;
    const Ticket last = queue.Post(Nop()).ticket;
    EXPECT_EQ(queue.Test(last).code, Code::kPending);
    EXPECT_EQ(CqeCountingCpu::cqe_loads, 1U) << "nothing new";
    StepAll(nic);
    ASSERT_TRUE(queue.Test(last).ok());
  }
}

TYPED_TEST(OwnRing, GoesOnWhereAnotherThreadLeft) {
  TestCq cq(64);
  TestQueue memory(64, 0, &cq);
  TestNic nic(memory);
  for (uint32_t i = 0; i < 1000; ++i) {
    typename TestFixture::CountingQueue queue(ViewFor<TypeParam>(memory));
    CqeCountingCpu::cqe_loads = 0;
    const Posted posted = queue.Post(Nop());
    ASSERT_TRUE(posted.status.ok()) << i;
    StepAll(nic);
    ASSERT_TRUE(queue.Test(posted.ticket).ok()) << i;
    if (i > 0) {
      EXPECT_LE(CqeCountingCpu::cqe_loads, 4U) << "without a search of the ring";
    }
  }
}

TYPED_TEST(OwnRing, SurvivesAnyHint) {
  for (const uint64_t hint : {uint64_t{0}, ~uint64_t{0}, uint64_t{5} << 32 | 4, uint64_t{37} << 32 | 37,
                              uint64_t{32} << 32 | 36, uint64_t{37} << 32 | (37 + 65536)}) {
    SCOPED_TRACE(hint);
    TestCq cq(16);
    TestQueue memory(16, 0, &cq);
    TestNic nic(memory);
    {
      typename TestFixture::Queue queue(ViewFor<TypeParam>(memory));
      for (int i = 0; i < 37; ++i) {
        ASSERT_TRUE(queue.Post(Nop()).status.ok());
        StepAll(nic);
      }
    }
    memory.control.cursor = hint;
    typename TestFixture::Queue queue(ViewFor<TypeParam>(memory));
    EXPECT_TRUE(queue.Test({36}).ok());
    const Ticket ticket = queue.Post(Nop()).ticket;
    EXPECT_EQ(queue.Test(ticket).code, Code::kPending);
    EXPECT_EQ(queue.Flush({}).code, Code::kTimeout);
    StepAll(nic);
    EXPECT_TRUE(queue.Test(ticket).ok());
    EXPECT_TRUE(queue.Flush({}).ok());
  }
}

/// Lets a NIC write `count` CQEs before a thread without a hint makes its `load`th load of a CQE.
TYPED_TEST(OwnRing, SearchesAgainIfTheNicComesRoundMeanwhile) {
  for (const uint32_t depth : {2U, 4U, 16U, 128U}) {
    for (uint32_t load = 1; load <= 12; ++load) {
      for (const uint32_t count : {1U, depth / 2, depth / 2 + 1, depth - 1, depth}) {
        SCOPED_TRACE(testing::Message() << depth << " CQEs, " << count << " more before load " << load);
        TestCq cq(depth);
        TestQueue memory(depth, 0, &cq);
        TestNic nic(memory);
        {
          typename TestFixture::Queue queue(ViewFor<TypeParam>(memory));
          for (uint32_t i = 0; i < depth; ++i) ASSERT_TRUE(queue.Post(Nop()).status.ok());
          StepAll(nic);
          ASSERT_TRUE(queue.Flush({}).ok());
          for (uint32_t i = 0; i < depth; ++i) ASSERT_TRUE(queue.Post(Nop()).status.ok());
        }
        memory.control.cursor = 0;
        typename TestFixture::MovingQueue queue(ViewFor<TypeParam>(memory));
        uint32_t loads = 0;
        MovingCpu::move = [&] {
          if (++loads != load) return;
          for (uint32_t i = 0; i < count; ++i) ASSERT_TRUE(nic.Step());
        };
        const uint32_t last = 2 * depth - 1;
        const Status status = queue.Test({last});
        ASSERT_TRUE(nic.next() > last || status.code == Code::kPending) << static_cast<int>(status.code);
        MovingCpu::move = nullptr;
        StepAll(nic);
        ASSERT_TRUE(queue.Test({last}).ok());
        for (uint32_t i = 0; i < depth; ++i) ASSERT_TRUE(queue.Post(Nop()).status.ok()) << i;
        ASSERT_EQ(queue.Post(Nop()).status.code, Code::kFull);
      }
    }
  }
}

/// A NIC, and what its completions have covered so far.
class CountingNic {
 public:
  CountingNic(TestQueue& memory, uint32_t start) : nic(memory, start), covered_(start) {}

  /// Notes the end of a post that will have a CQE.
  void Expect(uint32_t end) { ends_.push_back(end); }

  void Step() {
    nic.Step();
    for (; !ends_.empty() && static_cast<int32_t>(nic.next() - ends_.front()) >= 0; ends_.pop_front()) {
      covered_ = ends_.front();
    }
  }

  /// Forgets the last one: it was refused.
  void Forget() { ends_.pop_back(); }

  /// Returns the end of what completions have covered.
  uint32_t covered() const { return covered_; }

  TestNic nic;

 private:
  std::deque<uint32_t> ends_;
  uint32_t covered_;
};

/// Posts of any shape, completed at any pace, also while a thread looks, on rings of any depth: a ticket is
/// done if the NIC has completed a signalled WQE at or behind it, and not before.
TYPED_TEST(OwnRing, TellsExactlyWhatIsDone) {
  for (int seed = 0; seed < tests::Repetitions(120); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<uint32_t>(seed));
    const auto below = [&](uint32_t end) { return static_cast<uint32_t>(random() % end); };
    const uint32_t depth = 1u << (1 + below(5)), start = below(2) == 0 ? 0 : static_cast<uint32_t>(random());
    const uint32_t one_in = 2 + below(8), moves = seed % 2 == 0 ? 0 : 1 + below(3 * depth);
    TestCq cq(depth << below(3), start);
    TestQueue memory(depth, start, &cq);
    CountingNic nic(memory, start);
    MovingCpu::move = [&] {
      if (moves == 0 || below(one_in) != 0) return;
      for (uint32_t i = below(moves); i != 0; --i) nic.Step();
    };
    const uint32_t threads = std::is_same_v<TypeParam, Exclusive> ? 1 : 3;
    std::deque<typename TestFixture::MovingQueue> posters;
    const auto renew = [&] {  // as the next kernel does
      posters.clear();
      for (uint32_t i = 0; i < threads; ++i) posters.emplace_back(ViewFor<TypeParam>(memory));
    };
    renew();
    std::vector<Ticket> tickets;
    uint32_t unsignalled = 0;
    for (int step = 0; step < 4000; ++step) {
      if (below(50) == 0) renew();
      if (below(100) == 0) memory.control.cursor = random();
      auto& poster = posters[below(threads)];
      if (below(2) == 0) {
        const bool wide = depth >= 4 && below(4) == 0;
        const uint32_t slots = wide ? 2 : 1;
        const bool quiet = unsignalled + slots + 2 < depth && below(3) == 0;
        const uint32_t flags = quiet ? 0 : mlx5::kCqeAlways;
        const uint32_t end = static_cast<uint32_t>(memory.control.tail >> 32) + slots;
        const bool has_room = end - nic.covered() <= depth;
        if (!quiet) nic.Expect(end);  // the NIC may execute it within the call
        const Posted posted =
            wide ? poster.Post(Sequence{Nop(), Nop()}, {}, flags) : poster.Post(Nop(), {}, flags);
        if (posted.status.ok()) {
          ASSERT_LE(end - nic.covered(), depth) << "step " << step;
          unsignalled = quiet ? unsignalled + slots : 0;
          tickets.push_back(posted.ticket);
        } else {
          if (!quiet) nic.Forget();
          ASSERT_EQ(posted.status.code, Code::kFull);
          ASSERT_FALSE(moves == 0 && has_room) << "step " << step;
          nic.Step();
        }
      } else {
        nic.Step();
      }
      if (tickets.empty()) continue;
      const uint32_t back = below(std::min<uint32_t>(2 * depth, static_cast<uint32_t>(tickets.size())));
      const Ticket ticket = tickets[tickets.size() - 1 - back];
      const auto done = [&] { return static_cast<int32_t>(nic.covered() - ticket.index) > 0; };
      const bool before = done();
      const Code code = poster.Test(ticket).code;
      SCOPED_TRACE(testing::Message() << "step " << step << ", ticket " << ticket.index);
      ASSERT_TRUE(code == Code::kOk || code == Code::kPending);
      if (code == Code::kOk) {
        ASSERT_TRUE(done());
      } else if (moves == 0) {
        ASSERT_FALSE(before);
      }
    }
    MovingCpu::move = nullptr;
    while (nic.nic.Step()) {
    }
    ASSERT_TRUE(posters[0].Test(tickets[0]).ok());
    EXPECT_EQ(nic.nic.violation(), "");
    EXPECT_EQ(memory.control.error, 0U);
  }
}

TYPED_TEST(OwnRing, TellsACqeOfTheRoundBeforeThatLooksAlike) {
  constexpr uint32_t kDepth = 4096, kEach = 16;
  TestCq cq(kDepth);
  TestQueue memory(kDepth, 0, &cq);
  TestNic nic(memory);
  typename TestFixture::Queue queue(ViewFor<TypeParam>(memory));
  const auto post = [&](uint32_t flags) { return queue.Post(Nop(), {}, flags); };
  ASSERT_TRUE(post(mlx5::kCqeAlways).status.ok());  // CQE 0 has counter 0
  for (uint32_t slot = 1; slot < 65536; ++slot) {
    const bool signalled = slot % kEach == 0 && slot + kEach < 65536;
    ASSERT_TRUE(post(signalled || slot == 65535 ? mlx5::kCqeAlways : 0).status.ok()) << slot;
    if (slot % 1024 == 1023) StepAll(nic);
  }
  ASSERT_TRUE(queue.Flush({}).ok());
  const Posted alike = post(mlx5::kCqeAlways);  // CQE 4096 will have counter 0, too
  EXPECT_EQ(queue.Test(alike.ticket).code, Code::kPending);
  StepAll(nic);
  EXPECT_TRUE(queue.Test(alike.ticket).ok());
}

TEST(OwnRingShared, LetsManyThreadsPostAnything) {
  constexpr uint32_t kThreads = 4, kWrites = 3000;
  TestCq cq(32);
  TestQueue memory(16, 0, &cq);
  TestNic nic(memory);
  NicThread thread(nic);
  Together(kThreads, [&](uint32_t me) {
    SendQueue<Cpu, Shared> queue(memory.View());
    std::mt19937 random(me);
    std::vector<uint32_t> from(kWrites), to(kWrites);
    for (uint32_t i = 0; i < kWrites; ++i) {
      from[i] = i + 1;
      const auto write = Write(Remote(to[i]), Local(from[i]));
      const Posted posted =
          random() % 3 == 0 ? queue.Post(Sequence{Nop(), write}, Soon()) : queue.Post(write, Soon());
      ASSERT_TRUE(posted.status.ok());
      if (i % 8 != 0) continue;
      ASSERT_TRUE(queue.Wait(posted.ticket, Soon()).ok());
      ASSERT_EQ(to[i], i + 1);  // a race unless the completion orders it
    }
    ASSERT_TRUE(queue.Flush(Soon()).ok());
    EXPECT_EQ(from, to);
  });
  thread.Stop();
  EXPECT_EQ(nic.violation(), "");
}

TEST(OwnRingShared, ShowsAWaiterThatNeverPostsWhatIsDone) {
  TestCq cq(8);
  TestQueue memory(8, 0, &cq);
  TestNic nic(memory);
  SendQueue<Cpu, Shared> poster(memory.View()), waiter(memory.View());
  for (int i = 0; i < 200; ++i) {
    const Ticket ticket = poster.Post(Nop()).ticket;
    if (i % 3 != 0) {
      EXPECT_EQ(waiter.Test(ticket).code, Code::kPending) << i;
    }
    StepAll(nic);
    if (i % 20 != 0) {
      EXPECT_TRUE(waiter.Test(ticket).ok()) << i;
    }
    EXPECT_TRUE(poster.Test(ticket).ok());
  }
}

TEST(OwnRingRaw, ShowsWhatIsDone) {
  TestCq cq(8);
  TestQueue memory(8, 0, &cq);
  const RawSendQueue<Cpu> queue(memory.View());
  EXPECT_EQ(queue.PollCqOnce(0).code, Code::kPending);
  for (uint16_t i = 0; i < 100; ++i) {
    EXPECT_EQ(queue.PollCqOnce(i).code, Code::kPending) << i;
    memory.Complete({.wqe_counter = i});
    EXPECT_TRUE(queue.PollCqOnce(i).ok()) << i;
    EXPECT_TRUE(queue.PollCqOnce(i / 2).ok()) << i;
  }
  memory.Complete({mlx5::CqeOpcode::kRequesterError, 100, Syndrome::kRemoteAccess});
  for (uint16_t i = 101; i < 106; ++i)
    memory.Complete({mlx5::CqeOpcode::kRequesterError, i, Syndrome::kFlushed});
  EXPECT_EQ(queue.PollCqOnce(105).syndrome, kRemoteAccess);
  EXPECT_EQ(queue.PollCqOnce(105).wqe_index, 100);
}

}  // namespace
}  // namespace warpverbs::device
