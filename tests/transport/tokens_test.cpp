#include <gtest/gtest.h>

#include <array>
#include <asio/co_spawn.hpp>
#include <asio/experimental/parallel_group.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>
#include <optional>
#include <thread>

#include "pair.hpp"

/// Futures, callbacks and coroutines, on a loop of the library or on the caller's context.
namespace warpverbs::transport {
namespace {

struct Tokens : testing::Test {
  Tokens() { pair->Connect(); }

  EventLoop loop;
  std::optional<Pair> pair{std::in_place, TransportConfig{}, &loop};
  Buffer from{4096}, to{4096};
};

TEST_F(Tokens, CallbackRunsOnTheLoop) {
  std::promise<std::thread::id> there, loops;
  asio::post(loop.executor(), [&] { loops.set_value(std::this_thread::get_id()); });
  pair->a.Write(from.memory.CreateView(), to.memory.Remote(), {}, [&](const Status& status) {
    EXPECT_SUCCESS(status);
    there.set_value(std::this_thread::get_id());
  });
  EXPECT_EQ(GetInTime(there.get_future()), GetInTime(loops.get_future()));
}

TEST_F(Tokens, CallbackMayStartTheNextOperation) {
  std::promise<void> done;
  int rounds = 0;
  std::function<void(const Status&)> again = [&](const Status& status) {
    ASSERT_SUCCESS(status);
    if (++rounds == 1000) return done.set_value();
    pair->a.Write(from.memory.CreateView(), to.memory.Remote(), {}, std::ref(again));
  };
  pair->a.Write(from.memory.CreateView(), to.memory.Remote(), {}, std::ref(again));
  ASSERT_EQ(done.get_future().wait_for(kTestTimeout), std::future_status::ready);
}

/// The example of docs/transport.md.
TEST_F(Tokens, ParallelGroupWaitsForAll) {
  const auto view = from.memory.CreateView();
  const RdmaRemoteBuffer remote = to.memory.Remote();
  RdmaTransport& transport = pair->a;
  FillPattern(from.bytes, 3);
  auto all =
      asio::experimental::make_parallel_group(
          [&](auto token) { return transport.Write(view, remote, {.notify = true}, std::move(token)); },
          [&](auto token) { return pair->b.WaitForWrite({}, std::move(token)); })
          .async_wait(asio::experimental::wait_for_all(), asio::use_future);
  const auto [order, written, arrived] = GetInTime(std::move(all));
  EXPECT_SUCCESS(written);
  EXPECT_SUCCESS(arrived);
  EXPECT_EQ(order.size(), 2u);
  EXPECT_EQ(to.bytes, from.bytes);
}

TEST_F(Tokens, CallbackMayBeOfAnySize) {
  std::array<char, 1000> large{};
  large.back() = 'x';
  std::promise<char> seen;
  pair->a.Write(from.memory.CreateView(), to.memory.Remote(), {},
                [&seen, large](const Status&) { seen.set_value(large.back()); });
  EXPECT_EQ(GetInTime(seen.get_future()), 'x');
}

TEST_F(Tokens, CallbackMayDestroyTheTransport) {
  std::promise<void> done;
  auto pending = pair->b.WaitForWrite();
  pair->a.Write(from.memory.CreateView(), to.memory.Remote(), {}, [&](const Status&) {
    pair.reset();
    done.set_value();
  });
  ASSERT_EQ(done.get_future().wait_for(kTestTimeout), std::future_status::ready);
  EXPECT_EQ(ResultOf(std::move(pending)), Code::kAborted);
}

#ifdef ASIO_HAS_CO_AWAIT  // clang gets it with version 17
TEST_F(Tokens, CoroutineAwaitsEachOperation) {
  FillPattern(from.bytes, 21);
  const auto work = [&]() -> asio::awaitable<void> {
    const auto written = co_await pair->a.Write(from.memory.CreateView(), to.memory.Remote(),
                                                {.notify = true}, asio::use_awaitable);
    EXPECT_SUCCESS(written);
    EXPECT_SUCCESS(co_await pair->b.WaitForWrite({}, asio::use_awaitable));
    EXPECT_EQ(to.bytes, from.bytes);
    Buffer back(4096);
    EXPECT_SUCCESS(
        co_await pair->b.Read(back.memory.CreateMutableView(), to.memory.Remote(), {}, asio::use_awaitable));
    EXPECT_EQ(back.bytes, from.bytes);
  };
  auto done = asio::co_spawn(loop.executor(), work(), asio::use_future);
  ASSERT_EQ(done.wait_for(kTestTimeout), std::future_status::ready);
  done.get();
}
#endif

TEST(OwnLoop, CallbackMayDestroyTheTransportAndItsLoop) {
  auto pair = std::make_unique<Pair>();
  pair->Connect();
  Buffer from(64), to(64);
  std::promise<void> done;
  pair->a.Write(from.memory.CreateView(), to.memory.Remote(), {}, [&](const Status&) {
    pair.reset();
    done.set_value();
  });
  ASSERT_EQ(done.get_future().wait_for(kTestTimeout), std::future_status::ready);
}

TEST(CallersContext, RunsTheHandlers) {
  asio::io_context context;
  {
    EventLoop loop(context);
    auto pair = std::make_unique<Pair>(TransportConfig{}, &loop);
    pair->Connect();
    Buffer from(64), to(64);
    bool done = false;
    pair->a.Write(from.memory.CreateView(), to.memory.Remote(), {}, [&](const Status& status) {
      EXPECT_SUCCESS(status);
      done = true;
      pair.reset();  // lets run() return
    });
    context.run_for(kTestTimeout);
    EXPECT_TRUE(done);
    EXPECT_EQ(pair, nullptr);
  }
}

/// If run() returned, no thread would run it again when the transport connects.
TEST(CallersContext, HasWorkWhileATransportExists) {
  asio::io_context context;
  EventLoop loop(context);
  std::optional<RdmaTransport> unbound(std::in_place, 0, &loop);
  context.poll();
  EXPECT_FALSE(context.stopped());
  unbound.reset();
  EXPECT_FALSE(context.stopped()) << "the context stops only when it is run";
  context.poll();
  EXPECT_TRUE(context.stopped());
}

}  // namespace
}  // namespace warpverbs::transport
