#include "shortage.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "pair.hpp"
#include "url.hpp"
#include "warpverbs/host/error.hpp"

/// Shortages of the system break the transport or fail the call. No operation waits forever.
namespace warpverbs::transport {
namespace {

using testing::HasSubstr;

/// Runs the loop of the transports on the test's thread.
struct Shortage : testing::Test {
  void TearDown() override {
    FailWatching(0);
    FailAddresses(0);
  }

  /// Runs the loop until an operation has ended.
  void RunUntil(const std::future<Status>& future) {
    const auto deadline = std::chrono::steady_clock::now() + kTestTimeout;
    while (!IsReady(future) && std::chrono::steady_clock::now() < deadline) {
      context.run_one_for(std::chrono::milliseconds(100));
    }
  }
  Status RunToTheEnd(std::future<Status> future) {
    RunUntil(future);
    return IsReady(future) ? future.get() : Status(Code::kTimeout, "the test waited too long");
  }

  asio::io_context context;
  EventLoop loop{context};
  Pair pair{{}, &loop};
  Buffer from{64}, to{64};
};

/// The sentence of a timeout needs memory.
TEST_F(Shortage, OfMemoryWhilePollingBreaksTheTransport) {
  pair.Connect();
  ASSERT_SUCCESS(RunToTheEnd(pair.a.Write(from.memory.CreateView(), to.memory.Remote())));
  auto late = pair.a.WaitForWrite({.timeout = std::chrono::milliseconds(1)});
  std::vector<std::future<Status>> others;
  for (int i = 0; i < 1000; ++i) others.push_back(pair.a.WaitForWrite());
  FailAllocation(1, true);
  RunUntil(late);
  FailAllocation(0);
  EXPECT_EQ(RunToTheEnd(std::move(late)), Code::kInternalError);
  for (auto& other : others) ASSERT_EQ(RunToTheEnd(std::move(other)), Code::kInternalError);
  EXPECT_THAT(pair.a.GetStatus().Describe(), HasSubstr("no memory left"));
  EXPECT_EQ(RunToTheEnd(pair.a.WaitForWrite()), Code::kInternalError);
}

TEST_F(Shortage, OfWatchedFilesFallsBackToATimer) {
  FailWatching(ENOSPC);
  pair.Connect();
  EXPECT_THAT(pair.a.Describe(), HasSubstr("Cannot wait for the completions of mlx5_0"));
  EXPECT_SUCCESS(RunToTheEnd(pair.a.Write(from.memory.CreateView(), to.memory.Remote())));
}

/// Asio accepts a file that epoll cannot watch, and reports it at the first wait.
TEST_F(Shortage, FailureToWatchBreaksTheTransport) {
  FailWatching(EPERM);
  pair.Connect();
  EXPECT_EQ(RunToTheEnd(pair.a.Write(from.memory.CreateView(), to.memory.Remote())), Code::kInternalError);
  EXPECT_THAT(pair.a.GetStatus().Describe(), HasSubstr("Cannot wait for the completions of a NIC"));
}

TEST_F(Shortage, WhileConnectingDoesNotBlameTheUrl) {
  const Bound at_a = pair.a.Bind(), at_b = pair.b.Bind();
  for (const int error : {ENOMEM, EMFILE, ENFILE, ENOBUFS}) {
    FailAddresses(error);
    const Status status = pair.a.Connect(at_b.url);
    EXPECT_EQ(status, Code::kInternalError);
    EXPECT_THAT(status.Describe(), HasSubstr(host::Error::DescribeErrno(error) + ". Free memory or files"));
    EXPECT_SUCCESS(pair.a.GetStatus());
  }
  FailAddresses(EHOSTUNREACH);
  EXPECT_EQ(pair.a.Connect(at_b.url), Code::kInvalid);
  FailAddresses(0);
  ASSERT_SUCCESS(pair.a.Connect(at_b.url));
  ASSERT_SUCCESS(pair.b.Connect(at_a.url));
  EXPECT_SUCCESS(RunToTheEnd(pair.a.Write(from.memory.CreateView(), to.memory.Remote())));
}

TEST_F(Shortage, OfMemoryWhileBindingLeavesNothingBehind) {
  Bound bound;
  for (uint64_t step = 1; bound.url.empty() && step < 10'000; ++step) {
    FailAllocation(step);
    bound = pair.a.Bind();
    FailAllocation(0);
    ASSERT_TRUE(bound.status.ok() || bound.status == Code::kInternalError) << bound.status.Describe();
  }
  ASSERT_SUCCESS(bound.status);
  EXPECT_EQ(Url::FromText(bound.url).queue_pairs.size(), TransportConfig{}.queue_pairs);
}

}  // namespace
}  // namespace warpverbs::transport
