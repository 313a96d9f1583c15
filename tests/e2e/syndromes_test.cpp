#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "control.hpp"
#include "pair.hpp"

/// Tests every syndrome with which a NIC can fail a WQE, at every place of a batch.
namespace warpverbs::e2e {
namespace {

using device::Code;
using device::Status;
using host::CqMode;
using mlx5::Syndrome;

constexpr uint32_t kBatch = 16, kDepth = 32;
constexpr uint8_t kVendorSyndrome = 0x5a;

constexpr Syndrome kSyndromes[] = {
    Syndrome::kLocalLength,     Syndrome::kLocalQpOperation,       Syndrome::kLocalProtection,
    Syndrome::kFlushed,         Syndrome::kMemoryWindowBind,       Syndrome::kBadResponse,
    Syndrome::kLocalAccess,     Syndrome::kRemoteInvalidRequest,   Syndrome::kRemoteAccess,
    Syndrome::kRemoteOperation, Syndrome::kTransportRetryExceeded, Syndrome::kReceiverNotReadyRetryExceeded,
    Syndrome::kRemoteAborted,
};

/// An injected failure, and where it is seen.
struct Case {
  Syndrome syndrome;
  uint32_t position;  ///< place in the batch
  CqMode mode;

  /// A collapsed CQ shows only the newest completion, so a flush may hide the failure.
  bool keeps_cause() const { return mode == CqMode::kRing || position == kBatch - 1; }
};

/// @param i  place in the batch
void ExpectStatus(const Case& fault, uint32_t i, const Status& status) {
  SCOPED_TRACE(testing::Message() << "operation " << i << ": code " << static_cast<int>(status.code)
                                  << ", syndrome " << static_cast<int>(status.syndrome));
  const auto seen = static_cast<Syndrome>(status.syndrome);
  const bool shows_position = fault.keeps_cause() && fault.syndrome != Syndrome::kFlushed;
  if (i < fault.position && (shows_position || status.code == Code::kOk)) {
    EXPECT_EQ(status.code, Code::kOk) << "it completed before the failure";
    return;
  }
  EXPECT_EQ(status.code, Code::kError);
  EXPECT_EQ(status.opcode, static_cast<uint8_t>(mlx5::WqeOpcode::kRdmaWrite));
  if (fault.keeps_cause() || seen == fault.syndrome) {
    EXPECT_EQ(seen, fault.syndrome);
  } else {
    EXPECT_EQ(seen, Syndrome::kFlushed);
  }
  if (fault.keeps_cause()) {
    EXPECT_EQ(status.wqe_index, fault.position);
    EXPECT_EQ(status.vendor_syndrome, kVendorSyndrome);
  }
}

void ExpectLastError(const Case& fault, const host::Endpoint& endpoint) {
  const std::optional<host::QueueError> error = endpoint.LastError();
  ASSERT_TRUE(error.has_value());
  if (!fault.keeps_cause() && error->syndrome != static_cast<uint8_t>(fault.syndrome)) {
    EXPECT_EQ(error->syndrome, static_cast<uint8_t>(Syndrome::kFlushed));
    return;
  }
  EXPECT_EQ(error->syndrome, static_cast<uint8_t>(fault.syndrome));
  if (!fault.keeps_cause()) return;
  EXPECT_EQ(error->wqe_index, fault.position);
  EXPECT_EQ(error->vendor_syndrome, kVendorSyndrome);
  EXPECT_THAT(error->Describe(), testing::HasSubstr("at WQE index " + std::to_string(fault.position)));
  if (fault.syndrome == Syndrome::kFlushed) return;
  EXPECT_THAT(error->Describe(), testing::HasSubstr(mlx5::Describe(fault.syndrome)));
}

template <class Sharing>
class Syndromes : public testing::Test {
 protected:
  static constexpr bool kIsShared = std::is_same_v<Sharing, device::Shared>;

  void Run(CqMode mode) {
    Pair pair({.a = {.depth = kDepth, .cq_mode = mode}});
    pair.Connect();
    for (const Syndrome syndrome : kSyndromes) {
      for (uint32_t position = 0; position < kBatch; ++position) {
        SCOPED_TRACE(testing::Message() << mlx5::Describe(syndrome) << " at " << position);
        ASSERT_NO_FATAL_FAILURE(FailAndRecover(pair, {syndrome, position, mode}));
        if (this->HasFailure()) return;
      }
    }
  }

 private:
  void FailAndRecover(Pair& pair, const Case& fault) {
    Queue<Sharing> queue(pair.a.View());
    for (const std::vector<Status>& seen : Fail(pair, fault, queue)) {
      for (uint32_t i = 0; i < kBatch; ++i) ExpectStatus(fault, i, seen[i]);
    }
    EXPECT_EQ(queue.Flush(Within()).code, Code::kError);
    EXPECT_EQ(pair.PutWord(queue, 0).status.code, Code::kError);
    ExpectLastError(fault, pair.a);
    EXPECT_EQ(pair.a.State(), mlx5::QpState::kError);

    pair.Reconnect();
    EXPECT_FALSE(pair.a.LastError().has_value());
    Queue<Sharing> fresh(pair.a.View());
    const uint64_t value = ++pair.Source(100);
    const device::Posted posted = pair.PutWord(fresh, 100);
    ASSERT_EQ(posted.status.code, Code::kOk);
    ASSERT_EQ(fresh.Wait(posted.ticket, Within()).code, Code::kOk);
    EXPECT_EQ(pair.Target(100), value);
    pair.Reconnect();  // so that the next failure has the same indices
  }

  /// Posts a batch that fails. On a shared queue two threads post half of it each, and a third only waits.
  ///
  /// @return  each thread's status of each operation
  static std::vector<std::vector<Status>> Fail(const Pair& pair, const Case& fault, Queue<Sharing>& queue) {
    constexpr uint32_t kPosters = kIsShared ? 2 : 1;
    Hold hold(pair.device, pair.a);  // until all have posted
    Force(pair.device, pair.a, fault.position, fault.syndrome, kVendorSyndrome);
    std::vector<std::vector<Status>> seen(kIsShared ? 3 : 1, std::vector<Status>(kBatch));
    std::latch posted(kPosters);
    std::vector<std::jthread> others;
    if (kIsShared) {
      others.emplace_back([&] {
        Queue<Sharing> mine(pair.a.View());
        Post(pair, mine, kBatch / kPosters);
        posted.count_down();
        for (uint32_t i = 0; i < kBatch; ++i) seen[1][i] = mine.Wait({i}, Within());
      });
      others.emplace_back([&] {
        Queue<Sharing> mine(pair.a.View());
        for (uint32_t i = kBatch; i-- > 0;) seen[2][i] = mine.Wait({i}, Within());
      });
    }
    Post(pair, queue, kBatch / kPosters);
    posted.arrive_and_wait();
    hold.Release();
    for (uint32_t i = 0; i < kBatch; ++i) seen[0][i] = queue.Wait({i}, Within());
    others.clear();
    return seen;
  }

  static void Post(const Pair& pair, Queue<Sharing>& queue, uint32_t writes) {
    auto batch = queue.Begin(writes, Within());
    for (uint32_t i = 0; i < writes; ++i)
      EXPECT_TRUE(batch.Add(device::Write(pair.Remote(8 * i), pair.Local(8 * i, 8))).status.ok());
    EXPECT_EQ(batch.Submit().status.code, Code::kOk);
  }
};
using Sharings = testing::Types<device::Exclusive, device::Shared>;
TYPED_TEST_SUITE(Syndromes, Sharings);

TYPED_TEST(Syndromes, ReachEveryCallerOnACollapsedQueue) { this->Run(CqMode::kCollapsed); }
TYPED_TEST(Syndromes, ReachEveryCallerOnARingAsTheRootCause) { this->Run(CqMode::kRing); }

}  // namespace
}  // namespace warpverbs::e2e
