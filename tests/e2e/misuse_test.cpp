#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pair.hpp"
#include "warpverbs/mlx5/syndrome.hpp"

/// Mistakes of a first program, end to end: none is silent.
namespace warpverbs::e2e {
namespace {

using device::Code;
using device::RequestError;
using testing::HasSubstr;

/// A kernel of one thread: writes a word, waits as long as `limit` says, and returns at once when that fails.
device::Status PutAndReturnEarly(Pair& pair, size_t index, const device::WaitLimit& limit) {
  Queue<device::Exclusive> queue(pair.a.View());
  const device::Posted posted = pair.PutWord(queue, index);
  if (!posted.status.ok()) return posted.status;
  return queue.Wait(posted.ticket, limit);
}

TEST(Misuse, KernelsAfterAnEarlyReturnTransferToo) {
  Pair pair;
  pair.Connect();
  constexpr uint32_t kKernels = 100;
  const device::WaitLimit passed{.deadline_ns = 1};
  for (uint32_t i = 1; i <= kKernels; ++i) {
    pair.Source(i) = i;
    const bool waits = i % 3 == 0;
    const device::Status status = PutAndReturnEarly(pair, i, waits ? Within() : passed);
    ASSERT_TRUE(status.ok() || (!waits && status.code == Code::kTimeout)) << host::Describe(status);
  }
  ASSERT_TRUE(Queue<device::Exclusive>(pair.a.View()).Flush(Within()).ok());
  for (uint32_t i = 1; i <= kKernels; ++i) EXPECT_EQ(pair.Target(i), i);
}

TEST(Misuse, KeyWithSwappedBytesIsAnErrorThatNamesTheByteOrder) {
  Pair pair;
  pair.Connect();
  device::RemoteMemory remote = pair.Remote(0);
  remote.rkey.raw = __builtin_bswap32(remote.rkey.raw);
  Queue<device::Exclusive> queue(pair.a.View());
  const device::Posted posted = queue.Post(device::Write(remote, pair.Local(0, 8)));
  ASSERT_TRUE(posted.status.ok());
  EXPECT_EQ(queue.Wait(posted.ticket, Within()).code, Code::kError);
  const auto error = pair.a.LastError();
  ASSERT_TRUE(error);
  EXPECT_THAT(error->Describe(), HasSubstr("MemoryView::Remote() has it big-endian"));
}

TEST(Misuse, TicketOfARefusedPostIsInvalid) {
  Pair pair;
  pair.Connect();
  Queue<device::Exclusive> queue(pair.a.View());
  const device::Posted refused = queue.Post(device::Write(pair.Remote(0), pair.Local(0, uint64_t{1} << 40)));
  EXPECT_EQ(refused.status.code, Code::kInvalid);
  const device::Status status = queue.Wait(refused.ticket, Within());
  EXPECT_EQ(status.code, Code::kInvalid);
  EXPECT_EQ(status.request_error, RequestError::kRefusedTicket);
  ASSERT_TRUE(queue.Wait(pair.PutWord(queue, 0).ticket, Within()).ok()) << "the queue works on";
}

/// Threads of a processor whose releases reach only their own GPU, as those of arch::Cuda.
struct OwnGpuOnly : Cpu {
  static constexpr arch::Scope kReleaseScope = arch::Scope::kGpu;
};

TEST(Misuse, QueueInHostMemoryRefusesAnArchWhoseReleasesDoNotReachIt) {
  Pair pair;
  pair.Connect();
  device::SendQueue<OwnGpuOnly, device::Exclusive> queue(pair.a.View());
  const device::Status status = queue.Post(device::Write(pair.Remote(0), pair.Local(0, 8)), Within()).status;
  EXPECT_EQ(status.request_error, RequestError::kReleaseScope);
  EXPECT_THAT(host::Describe(status), HasSubstr("Use arch::CudaSystem"));
}

}  // namespace
}  // namespace warpverbs::e2e
