#include "warpverbs/device/rails.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "control.hpp"
#include "host/connect/two_sides.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/arch/cpu_block.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/rail_set.hpp"

/// Rails over eight NICs: whole writes, signals, and rails that fail.
namespace warpverbs::e2e {
namespace {

using arch::Cpu;
using device::Code;
using device::Shared;
using testing::Each;
using testing::HasSubstr;

device::WaitLimit Within() { return {.deadline_ns = Cpu::NowNs() + 60'000'000'000}; }

constexpr uint32_t kFirst = 1;  // index of the first write: ConnectAll() has written once on each rail
constexpr uint64_t kCut = 4096, kBytes = 64 * kCut;

struct Side {
  explicit Side(const std::vector<const host::Device*>& devices,
                const host::RailSetConfig& config = {.cut_bytes = kCut})
      : rails(devices, config),
        bytes(kBytes + 4096),
        regions(devices, bytes.data(), bytes.size(), {.remote_write = true, .remote_atomic = true}) {}

  host::RailSet rails;
  std::vector<uint8_t> bytes;
  host::RegionSet regions;
};

class RailsTest : public testing::Test {
 protected:
  RailsTest() {
    for (const std::string& name : host::DeviceNames()) {
      opened_.push_back(std::make_unique<host::Device>(name));
      devices_.push_back(opened_.back().get());
    }
    Make(8);
  }

  /// Makes sets of as many rails on as many NICs.
  void Make(uint32_t count) {
    const std::vector<const host::Device*> used(devices_.begin(), devices_.begin() + count);
    a_ = std::make_unique<Side>(used);
    b_ = std::make_unique<Side>(used);
    EXPECT_EQ(Connect(a_->rails, b_->rails), "");
    view_ = a_->rails.View();
    local_ = a_->rails.Local(a_->regions);
    remote_ = b_->rails.Remote(b_->regions);
    signal_ = remote_;
    signal_.addr += kBytes;
    for (size_t i = 0; i < kBytes; ++i) a_->bytes[i] = static_cast<uint8_t>(i * 7 + i / 4096 + 1);
  }

  /// Connects both sides. Returns the error of the first.
  static std::string Connect(host::RailSet& a, host::RailSet& b) {
    host::Wire wire;
    const auto run = [&wire](host::RailSet& rails, size_t side) -> std::string {
      host::Wire::End end(wire, side);
      host::RailSet* const sets[] = {&rails};
      try {
        host::ConnectAll(sets, end, host::DeadlineIn(std::chrono::minutes(1)), {.round_trip = true});
        return {};
      } catch (const host::Error& error) {
        wire.Cut();
        return error.what();
      }
    };
    std::jthread other([&] { run(b, 1); });
    return run(a, 0);
  }

  /// Returns the first bytes of this side's memory.
  device::RailLocalMemory First(uint64_t bytes) const {
    device::RailLocalMemory local = local_;
    local.bytes = bytes;
    return local;
  }
  void ExpectArrived(uint64_t bytes) {
    EXPECT_TRUE(
        std::equal(a_->bytes.begin(), a_->bytes.begin() + static_cast<ptrdiff_t>(bytes), b_->bytes.begin()));
    EXPECT_TRUE(std::all_of(b_->bytes.begin() + static_cast<ptrdiff_t>(bytes), b_->bytes.begin() + kBytes,
                            [](uint8_t byte) { return byte == 0; }));
    std::fill(b_->bytes.begin(), b_->bytes.begin() + kBytes, uint8_t{0});
  }
  const uint64_t* Signal() const { return reinterpret_cast<const uint64_t*>(b_->bytes.data() + kBytes); }
  /// Makes the next post of a rail fail.
  void Fail(uint32_t rail, uint32_t index) {
    Force(*devices_[rail], a_->rails[rail], index, mlx5::Syndrome::kTransportRetryExceeded);
  }

  std::vector<std::unique_ptr<host::Device>> opened_;
  std::vector<const host::Device*> devices_;
  std::unique_ptr<Side> a_, b_;
  device::RailsView view_{};
  device::RailLocalMemory local_{};
  device::RailRemoteMemory remote_{}, signal_{};
};

TEST_F(RailsTest, WriteOfAnySizeArrivesOverAnyNumberOfRails) {
  for (const uint32_t count : {1u, 3u, 8u}) {
    Make(count);
    device::Rails<Cpu, Shared> rails(view_, 2);
    for (const uint64_t bytes :
         {uint64_t{0}, uint64_t{1}, 2 * kCut - 1, 2 * kCut, 5 * kCut + 3, kBytes - 1, kBytes}) {
      SCOPED_TRACE(testing::Message() << bytes << " bytes over " << count);
      const device::RailPosted posted = rails.Write(remote_, First(bytes), Within());
      ASSERT_EQ(posted.status.code, Code::kOk);
      const uint64_t most = std::min<uint64_t>(count, std::max<uint64_t>(bytes / kCut, 1));
      EXPECT_LE(posted.ticket.parts, most);
      EXPECT_TRUE(bytes != kBytes || posted.ticket.parts == count);
      ASSERT_EQ(rails.Wait(posted.ticket, Within()).code, Code::kOk);
      ExpectArrived(bytes);
    }
  }
}

TEST_F(RailsTest, SmallWritesOfACallerTakeItsRailInOrder) {
  for (uint32_t caller = 0; caller < 10; ++caller) {
    device::Rails<Cpu, Shared> rails(view_, caller);
    EXPECT_EQ(rails.Home(), caller % 8);
    for (uint32_t i = 0; i < 3; ++i) {
      const device::RailPosted posted = rails.Write(remote_, First(8), Within());
      ASSERT_EQ(posted.status.code, Code::kOk);
      EXPECT_EQ(posted.ticket.parts, 1u);
      EXPECT_EQ(posted.ticket.rails[0], caller % 8);
      ASSERT_EQ(rails.Wait(posted.ticket, Within()).code, Code::kOk);
    }
  }
}

TEST_F(RailsTest, SignalCountsAllParts) {
  uint64_t signals = 0;
  for (const uint32_t count : {8u, 5u, 1u}) {
    Make(count);
    signals = 0;
    device::Rails<Cpu, Shared> rails(view_, 0);
    for (const uint64_t bytes : {uint64_t{0}, uint64_t{5}, 3 * kCut, 7 * kCut, kBytes}) {
      SCOPED_TRACE(testing::Message() << bytes << " bytes over " << count);
      const device::RailPosted posted = rails.PutSignal(remote_, First(bytes), signal_, Within());
      ASSERT_EQ(posted.status.code, Code::kOk);
      ++signals;
      ASSERT_TRUE(device::WaitSignal<Cpu>(Signal(), device::Compare::kGreaterOrEqual,
                                          signals * device::kRailSignal, Within())
                      .ok());
      ExpectArrived(bytes);
      EXPECT_EQ(Cpu::Load(Signal()), signals * device::kRailSignal) << "whatever the number of parts";
      ASSERT_EQ(rails.Wait(posted.ticket, Within()).code, Code::kOk);
    }
  }
}

TEST_F(RailsTest, FailedRailIsNamedAndLeftOut) {
  device::Rails<Cpu, Shared> rails(view_, 3);
  Fail(5, kFirst);
  const device::RailPosted posted = rails.Write(remote_, local_, Within());
  ASSERT_EQ(posted.status.code, Code::kOk);
  const device::Status status = rails.Wait(posted.ticket, Within());
  EXPECT_EQ(status.code, Code::kError);
  EXPECT_EQ(status.rail, 5);
  EXPECT_EQ(status.syndrome, static_cast<uint8_t>(mlx5::Syndrome::kTransportRetryExceeded));
  EXPECT_EQ(rails.Working(), 0xdfu);
  std::fill(b_->bytes.begin(), b_->bytes.begin() + kBytes, uint8_t{0});
  for (uint32_t caller = 0; caller < 8; ++caller) {
    device::Rails<Cpu, Shared> later(view_, caller);
    EXPECT_EQ(later.Home(), caller == 5 ? 6 : caller) << "the others keep theirs";
    const device::RailPosted again = later.Write(remote_, local_, Within());
    ASSERT_EQ(again.status.code, Code::kOk);
    EXPECT_EQ(again.ticket.parts, 7u);
    ASSERT_EQ(later.Wait(again.ticket, Within()).code, Code::kOk);
    ExpectArrived(kBytes);
  }
}

TEST_F(RailsTest, WritesAgainWhatAFailedRailLost) {
  device::Rails<Cpu, Shared> rails(view_, 0);
  for (uint32_t rail = 7; rail > 0;
       --rail) {  // a lost part goes to rail 0, whose index the others do not need
    SCOPED_TRACE(rail);
    Fail(rail, kFirst + 7 - rail);
    const device::RailPosted posted = rails.Write(remote_, local_, Within());
    ASSERT_EQ(posted.status.code, Code::kOk);
    EXPECT_EQ(posted.ticket.parts, rail + 1);
    ASSERT_EQ(rails.WaitOrRepeat(posted.ticket, remote_, local_, Within()).code, Code::kOk);
    ExpectArrived(kBytes);
    EXPECT_EQ(rails.Working(), (1u << rail) - 1);
  }
}

TEST_F(RailsTest, ReportsTheLastRailWhenNoneIsLeft) {
  Make(2);
  device::Rails<Cpu, Shared> rails(view_, 0);
  Fail(0, kFirst);
  Fail(1, kFirst);
  const device::RailPosted posted = rails.Write(remote_, First(8), Within());
  ASSERT_EQ(posted.status.code, Code::kOk);
  const device::Status status = rails.WaitOrRepeat(posted.ticket, remote_, First(8), Within());
  EXPECT_EQ(status.code, Code::kError);
  EXPECT_EQ(rails.Working(), 0u);
  EXPECT_EQ(rails.Home(), device::kMaxRails);
  EXPECT_EQ(rails.Write(remote_, local_, Within()).status.code, Code::kError);
}

TEST_F(RailsTest, ManyCallersWriteWhileARailFails) {
  constexpr uint32_t kThreads = 4, kRounds = 30;
  constexpr uint64_t kEach = kBytes / kThreads;
  Fail(6, 40);
  std::vector<std::jthread> threads;
  for (uint32_t me = 0; me < kThreads; ++me) {
    threads.emplace_back([&, me] {
      device::Rails<Cpu, Shared> rails(view_, me);
      device::RailLocalMemory local = First(kEach);
      device::RailRemoteMemory remote = remote_;
      local.addr += me * kEach;
      remote.addr += me * kEach;
      for (uint32_t round = 0; round < kRounds; ++round) {
        const device::RailPosted posted = rails.Write(remote, local, Within());
        ASSERT_EQ(posted.status.code, Code::kOk);
        ASSERT_EQ(rails.WaitOrRepeat(posted.ticket, remote, local, Within()).code, Code::kOk);
        ASSERT_TRUE(
            std::equal(&a_->bytes[me * kEach], &a_->bytes[me * kEach] + kEach, &b_->bytes[me * kEach]));
        std::fill_n(&b_->bytes[me * kEach], kEach, uint8_t{0});
      }
    });
  }
  threads.clear();
  EXPECT_EQ((device::Rails<Cpu, Shared>(view_, 0).Working()), 0xbfu) << "one rail failed in the midst";
}

/// Lanes that write a piece of the memory each, as one warp.
template <class Sharing>
class WarpRails : public RailsTest {
 protected:
  static constexpr uint32_t kLanes = 8;
  static constexpr arch::LaneMask kAll = 0xff;
  static constexpr uint64_t kEach = kBytes / kLanes;
  using Queues = device::Rails<Cpu, Sharing, device::Warp, device::Counted>;

  /// Runs `body(lane, rails, remote, local)` on each lane, whose write has as many bytes as `sizes` tells.
  template <class Body>
  void RunWarp(uint32_t caller, const std::vector<uint64_t>& sizes, const Body& body) {
    arch::cpu::RunBlock(
        kLanes,
        [&](uint32_t lane) {
          Queues rails(view_, caller, device::Warp(kAll));
          device::RailLocalMemory local = First(sizes[lane]);
          device::RailRemoteMemory remote = remote_;
          local.addr += lane * kEach;
          remote.addr += lane * kEach;
          body(lane, rails, remote, local);
        },
        kLanes);
  }
  void ExpectPieces(const std::vector<uint64_t>& sizes) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const size_t begin = lane * kEach;
      EXPECT_TRUE(std::equal(&a_->bytes[begin], &a_->bytes[begin] + sizes[lane], &b_->bytes[begin])) << lane;
      EXPECT_TRUE(std::all_of(&b_->bytes[begin] + sizes[lane], &b_->bytes[begin] + kEach, [](uint8_t byte) {
        return byte == 0;
      })) << lane;
    }
    std::fill(b_->bytes.begin(), b_->bytes.begin() + kBytes, uint8_t{0});
  }
};

using WarpSharings = testing::Types<device::Exclusive, Shared>;
TYPED_TEST_SUITE(WarpRails, WarpSharings);

TYPED_TEST(WarpRails, SmallWritesShareAPostOnTheCallersRail) {
  const std::vector<uint64_t> sizes(8, 8);
  this->RunWarp(3, sizes, [](uint32_t lane, auto& rails, const auto& remote, const auto& local) {
    const device::RailPosted posted = rails.Write(remote, local, Within());
    ASSERT_EQ(posted.status.code, Code::kOk);
    EXPECT_EQ(posted.ticket.parts, 1u);
    EXPECT_EQ(posted.ticket.rails[0], 3u);
    EXPECT_EQ(posted.ticket.tickets[0].index, kFirst + lane);
    EXPECT_EQ(rails.Wait(posted.ticket, Within()).code, Code::kOk);
  });
  this->ExpectPieces(sizes);
  EXPECT_EQ(this->a_->rails[3].Counters().posts, 1u);
  EXPECT_EQ(this->a_->rails[3].Counters().wqebbs, 8u);
}

TYPED_TEST(WarpRails, WritesOfEqualSizeSharePostsOnAllRails) {
  const std::vector<uint64_t> sizes(8, TestFixture::kEach);  // 8 parts
  this->RunWarp(0, sizes, [](uint32_t, auto& rails, const auto& remote, const auto& local) {
    const device::RailPosted posted = rails.Write(remote, local, Within());
    ASSERT_EQ(posted.status.code, Code::kOk);
    EXPECT_EQ(posted.ticket.parts, 8u);
    EXPECT_EQ(rails.Wait(posted.ticket, Within()).code, Code::kOk);
  });
  this->ExpectPieces(sizes);
  for (uint32_t rail = 0; rail < 8; ++rail) EXPECT_EQ(this->a_->rails[rail].Counters().posts, 1u) << rail;
}

TYPED_TEST(WarpRails, LanesMayWriteDifferentSizes) {
  const std::vector<uint64_t> sizes{0, 1, kCut, 2 * kCut - 1, 2 * kCut, 3 * kCut + 5, 7 * kCut, 8 * kCut};
  for (uint32_t caller = 0; caller < 3; ++caller) {
    this->RunWarp(caller, sizes, [](uint32_t lane, auto& rails, const auto& remote, const auto& local) {
      constexpr uint32_t kParts[] = {1, 1, 1, 1, 2, 2, 7, 8};  // whole pages
      for (int round = 0; round < 5; ++round) {
        const device::RailPosted posted = rails.Write(remote, local, Within());
        ASSERT_EQ(posted.status.code, Code::kOk);
        EXPECT_EQ(posted.ticket.parts, kParts[lane]);
        EXPECT_EQ(rails.Wait(posted.ticket, Within()).code, Code::kOk);
      }
    });
    this->ExpectPieces(sizes);
  }
}

TYPED_TEST(WarpRails, SignalCountsTheWritesOfAllLanes) {
  const std::vector<uint64_t> sizes{8, 8, 8, 8, 4 * kCut, 4 * kCut, 8 * kCut, 8 * kCut};
  this->RunWarp(5, sizes, [this](uint32_t, auto& rails, const auto& remote, const auto& local) {
    const device::RailPosted posted = rails.PutSignal(remote, local, this->signal_, Within());
    ASSERT_EQ(posted.status.code, Code::kOk);
    EXPECT_EQ(rails.Wait(posted.ticket, Within()).code, Code::kOk);
  });
  this->ExpectPieces(sizes);
  EXPECT_EQ(Cpu::Load(this->Signal()), 8 * device::kRailSignal);
}

TYPED_TEST(WarpRails, WritesAgainWhatAFailedRailLost) {
  const std::vector<uint64_t> sizes(8, TestFixture::kEach);
  this->Fail(6, kFirst + 3);  // the part of lane 3
  this->RunWarp(0, sizes, [](uint32_t, auto& rails, const auto& remote, const auto& local) {
    for (int round = 0; round < 2; ++round) {
      const device::RailPosted posted = rails.Write(remote, local, Within());
      ASSERT_EQ(posted.status.code, Code::kOk);
      EXPECT_EQ(rails.WaitOrRepeat(posted.ticket, remote, local, Within()).code, Code::kOk);
    }
    EXPECT_EQ(rails.Working(), 0xbfu);
  });
  this->ExpectPieces(sizes);
}

TYPED_TEST(WarpRails, AllLanesLearnThatNoRailIsLeft) {
  this->Make(1);
  this->Fail(0, kFirst);
  this->RunWarp(0, std::vector<uint64_t>(8, 8),
                [](uint32_t, auto& rails, const auto& remote, const auto& local) {
                  const device::RailPosted posted = rails.Write(remote, local, Within());
                  ASSERT_EQ(posted.status.code, Code::kOk);
                  EXPECT_EQ(rails.Wait(posted.ticket, Within()).code, Code::kError);
                  EXPECT_EQ(rails.Write(remote, local, Within()).status.code, Code::kError);
                });
}

TEST_F(RailsTest, DescribesEachRail) {
  const std::string text = a_->rails.Describe();
  EXPECT_THAT(text, HasSubstr("8 rails; writes of 8192 bytes or more"));
  for (uint32_t rail = 0; rail < 8; ++rail)
    EXPECT_THAT(text, HasSubstr("rail " + std::to_string(rail) + ", " + devices_[rail]->name()));
}

TEST_F(RailsTest, ConnectAllNamesSetsOfOtherSizes) {
  Side three({devices_.begin(), devices_.begin() + 3}), two({devices_.begin(), devices_.begin() + 2});
  EXPECT_THAT(Connect(three.rails, two.rails), HasSubstr("they have 3 rails, and those of the peer have 2"));
}

TEST_F(RailsTest, OpensTheNicsOfAnAssignment) {
  const auto opened =
      host::OpenNics({.nics = {{.name = devices_[2]->name()}, {.name = devices_[0]->name()}}});
  ASSERT_EQ(opened.size(), 2u);
  EXPECT_EQ(opened[0]->name(), devices_[2]->name());
  EXPECT_EQ(opened[1]->name(), devices_[0]->name());
}

TEST_F(RailsTest, RefusesImpossibleSets) {
  EXPECT_THROW(host::RailSet({}, {}), host::Error);
  EXPECT_THROW(host::RailSet(devices_, {.queue_pairs = 2}), host::Error);
  EXPECT_THROW(host::RailSet(devices_, {.cut_bytes = 0}), host::Error);
}

}  // namespace
}  // namespace warpverbs::e2e
