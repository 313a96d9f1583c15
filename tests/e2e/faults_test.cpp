#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "fault.hpp"

/// Tests what a kernel sees of each way in which a write can fail.
namespace warpverbs::e2e {
namespace {

using device::Code;
using mlx5::Syndrome;

constexpr uint64_t kBytes = 4096;
const Fault kRemoteAccess{Syndrome::kRemoteAccess, "the rkey does not allow this operation on this range"};
const Fault kLocalProtection{Syndrome::kLocalProtection, "the lkey does not cover the local buffer"};

template <class Sharing>
class Faults : public testing::Test {
 protected:
  /// Writes a word successfully, then `local` to `remote`, which must fail.
  void ExpectFaultOf(Pair& pair, const device::RemoteMemory& remote, const device::LocalMemory& local,
                     const Fault& fault) {
    Queue<Sharing> queue(pair.a.View());
    pair.Source(0) = 42;
    const device::Posted good = pair.PutWord(queue, 0);
    ASSERT_EQ(queue.Wait(good.ticket, Within()).code, Code::kOk);
    ExpectFault(pair, queue, queue.Post(device::Write(remote, local)), fault);
    EXPECT_EQ(queue.Test(good.ticket).code, Code::kOk) << "a completed write stays complete";
    EXPECT_EQ(pair.Target(0), 42u);
    for (size_t i = 1; i < kBytes / 8; ++i)
      EXPECT_EQ(pair.Target(i), 0u) << "the refused write changed word " << i;
  }
};
using Sharings = testing::Types<device::Exclusive, device::Shared>;
TYPED_TEST_SUITE(Faults, Sharings);

TYPED_TEST(Faults, WrongRkeyFailsTheWrite) {
  Pair pair;
  pair.Connect();
  device::RemoteMemory remote = pair.Remote(8);
  remote.rkey.raw = ~remote.rkey.raw;
  this->ExpectFaultOf(pair, remote, pair.Local(0, 8), kRemoteAccess);
}

TYPED_TEST(Faults, WrongLkeyFailsTheWrite) {
  Pair pair;
  pair.Connect();
  device::LocalMemory local = pair.Local(0, 8);
  local.lkey.raw = ~local.lkey.raw;
  this->ExpectFaultOf(pair, pair.Remote(8), local, kLocalProtection);
}

TYPED_TEST(Faults, OneByteBeyondTheTargetFailsTheWrite) {
  Pair pair;
  pair.Connect();
  this->ExpectFaultOf(pair, pair.Remote(kBytes - 7), pair.Local(0, 8), kRemoteAccess);
}

TYPED_TEST(Faults, OneByteBeforeTheTargetFailsTheWrite) {
  Pair pair;
  pair.Connect();
  this->ExpectFaultOf(pair, pair.Remote(uint64_t{0} - 1), pair.Local(0, 8), kRemoteAccess);
}

TYPED_TEST(Faults, OneByteBeyondTheSourceFailsTheWrite) {
  Pair pair;
  pair.Connect();
  this->ExpectFaultOf(pair, pair.Remote(8), pair.Local(kBytes - 7, 8), kLocalProtection);
}

TYPED_TEST(Faults, RegionWithoutRemoteWriteFailsTheWrite) {
  Pair pair;
  pair.Connect();
  // The source's region is also the peer's, and grants nothing.
  const device::LocalMemory source = pair.Local(8, 8);
  this->ExpectFaultOf(pair, {source.addr, source.lkey}, pair.Local(0, 8), kRemoteAccess);
  EXPECT_EQ(pair.Source(1), 0u);
}

TYPED_TEST(Faults, EndpointWithoutRemoteWriteFailsTheWrite) {
  Pair pair({.b = {.remote_write = false}});
  pair.Connect();
  Queue<TypeParam> queue(pair.a.View());
  ExpectFault(pair, queue, pair.PutWord(queue, 0),
              {Syndrome::kRemoteInvalidRequest, "the peer does not take this operation"});
  EXPECT_EQ(pair.b.State(), mlx5::QpState::kError);
}

TYPED_TEST(Faults, UnconnectedPeerFailsTheWrite) {
  Pair pair({.a = {.retry = {.ack_timeout = 8, .retry_count = 1}}});  // two attempts of a millisecond
  pair.a.Connect(pair.b.Info());
  Queue<TypeParam> queue(pair.a.View());
  ExpectFault(pair, queue, pair.PutWord(queue, 0),
              {Syndrome::kTransportRetryExceeded, "the peer does not answer"});
}

TYPED_TEST(Faults, DestroyedPeerFailsTheWrite) {
  Pair pair({.a = {.retry = {.ack_timeout = 8, .retry_count = 1}}});
  {
    host::Endpoint gone(pair.device);
    pair.a.Connect(gone.Info());
    gone.Connect(pair.a.Info());
  }
  Queue<TypeParam> queue(pair.a.View());
  ExpectFault(pair, queue, pair.PutWord(queue, 0),
              {Syndrome::kTransportRetryExceeded, "the peer does not answer"});
}

TYPED_TEST(Faults, UnconnectedEndpointFailsTheWrite) {
  Pair pair;
  Queue<TypeParam> queue(pair.a.View());
  ExpectFault(pair, queue, pair.PutWord(queue, 0),
              {Syndrome::kLocalQpOperation, "the NIC cannot execute this work queue entry"});
}

TYPED_TEST(Faults, DeadPeerFailsAFullQueueAsAWhole) {
  constexpr uint32_t kDepth = 4;
  Pair pair({.a = {.depth = kDepth, .retry = {.ack_timeout = 8, .retry_count = 1}}});
  pair.a.Connect(pair.b.Info());
  Queue<TypeParam> queue(pair.a.View());
  std::vector<device::Ticket> tickets;
  for (uint32_t i = 0; i < kDepth; ++i) tickets.push_back(pair.PutWord(queue, i, {}).ticket);
  // The fifth write waits for room. It ends when the queue pair fails, long before its deadline.
  EXPECT_EQ(pair.PutWord(queue, kDepth).status.code, Code::kError);
  for (const device::Ticket ticket : tickets) EXPECT_EQ(queue.Wait(ticket, Within()).code, Code::kError);
}

TEST(SharedFaults, ReachEveryWaiterAndPoster) {
  constexpr size_t kThreads = 4;
  Pair pair({.a = {.depth = 64, .retry = {.ack_timeout = 10, .retry_count = 1}}});  // two attempts of 4 ms
  pair.a.Connect(pair.b.Info());
  std::vector<device::Status> waited(kThreads), posted(kThreads);
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        Queue<device::Shared> queue(pair.a.View());
        waited[i] = queue.Wait(pair.PutWord(queue, i).ticket, Within());
        posted[i] = pair.PutWord(queue, i).status;
      });
    }
  }
  for (const device::Status& status : waited) EXPECT_EQ(status.code, Code::kError);
  // On a collapsed CQ the first reader may find a flush. All others must see the same status.
  for (const device::Status& status : posted) {
    EXPECT_EQ(status.code, Code::kError);
    EXPECT_EQ(status.syndrome, posted[0].syndrome);
    EXPECT_THAT(static_cast<Syndrome>(status.syndrome),
                testing::AnyOf(Syndrome::kTransportRetryExceeded, Syndrome::kFlushed));
  }
}

TEST(SharedFaults, ReachAWaiterOfAnotherThreadsWrite) {
  Pair pair;
  pair.Connect();
  Queue<device::Shared> queue(pair.a.View());
  device::RemoteMemory remote = pair.Remote(8);
  remote.rkey.raw = ~remote.rkey.raw;
  const device::Posted posted = queue.Post(device::Write(remote, pair.Local(0, 8)));
  std::vector<device::Status> statuses(3);
  {
    std::vector<std::jthread> threads;
    for (device::Status& status : statuses) {
      threads.emplace_back(
          [&] { status = Queue<device::Shared>(pair.a.View()).Wait(posted.ticket, Within()); });
    }
  }
  for (const device::Status& status : statuses) ExpectError(status, kRemoteAccess);
}

}  // namespace
}  // namespace warpverbs::e2e
