#include <gtest/gtest.h>

#include <array>
#include <asio/co_spawn.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>
#include <optional>
#include <thread>

#include "pair.hpp"

/// One interface for futures, callbacks and coroutines, on a loop of one's own or somebody else's.
namespace warpverbs::transport {
namespace {

struct Tokens : testing::Test {
  Tokens() { pair->Connect(); }

  EventLoop loop;
  std::optional<Pair> pair{std::in_place, TransportOptions{}, &loop};
  Buffer from{4096}, to{4096};
};

TEST_F(Tokens, CallbackRunsOnTheLoop) {
  std::promise<std::thread::id> there, loops;
  asio::post(loop.executor(), [&] { loops.set_value(std::this_thread::get_id()); });
  pair->a.Write(from.memory.CreateView(), to.memory.Remote(), {}, [&](const Status& status) {
    EXPECT_SUCCESS(status);
    there.set_value(std::this_thread::get_id());
  });
  EXPECT_EQ(InTime(there.get_future()), InTime(loops.get_future()));
}

TEST_F(Tokens, CallbackMayBeginTheNextOperation) {
  std::promise<void> done;
  int rounds = 0;
  std::function<void(const Status&)> again = [&](const Status& status) {
    ASSERT_SUCCESS(status);
    if (++rounds == 1000) return done.set_value();
    pair->a.Write(from.memory.CreateView(), to.memory.Remote(), {}, std::ref(again));
  };
  pair->a.Write(from.memory.CreateView(), to.memory.Remote(), {}, std::ref(again));
  ASSERT_EQ(done.get_future().wait_for(kLong), std::future_status::ready);
}

TEST_F(Tokens, CallbackMayBeOfAnySize) {
  std::array<char, 1000> much{};
  much.back() = 'x';
  std::promise<char> seen;
  pair->a.Write(from.memory.CreateView(), to.memory.Remote(), {},
                [&seen, much](const Status&) { seen.set_value(much.back()); });
  EXPECT_EQ(InTime(seen.get_future()), 'x');
}

TEST_F(Tokens, CallbackMayDestroyTheTransport) {
  std::promise<void> done;
  auto pending = pair->b.WaitForWrite();
  pair->a.Write(from.memory.CreateView(), to.memory.Remote(), {}, [&](const Status&) {
    pair.reset();
    done.set_value();
  });
  ASSERT_EQ(done.get_future().wait_for(kLong), std::future_status::ready);
  EXPECT_EQ(Outcome(std::move(pending)), Code::kAborted);
}

#ifdef ASIO_HAS_CO_AWAIT  // clang gets it with version 17
TEST_F(Tokens, CoroutineAwaitsEach) {
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
  ASSERT_EQ(done.wait_for(kLong), std::future_status::ready);
  done.get();
}
#endif

TEST(TokensOfOwnLoop, CallbackMayDestroyTheTransportAndItsLoop) {
  auto pair = std::make_unique<Pair>();
  pair->Connect();
  Buffer from(64), to(64);
  std::promise<void> done;
  pair->a.Write(from.memory.CreateView(), to.memory.Remote(), {}, [&](const Status&) {
    pair.reset();
    done.set_value();
  });
  ASSERT_EQ(done.get_future().wait_for(kLong), std::future_status::ready);
}

TEST(TokensOfSomebodysContext, RunWhereThatRuns) {
  asio::io_context context;
  {
    EventLoop loop(context);
    auto pair = std::make_unique<Pair>(TransportOptions{}, &loop);
    pair->Connect();
    Buffer from(64), to(64);
    bool done = false;
    pair->a.Write(from.memory.CreateView(), to.memory.Remote(), {}, [&](const Status& status) {
      EXPECT_SUCCESS(status);
      done = true;
      pair.reset();  // so that run() returns
    });
    context.run_for(kLong);
    EXPECT_TRUE(done);
    EXPECT_EQ(pair, nullptr);
  }
}

/// Nobody would run it again when the transport connects at last.
TEST(TokensOfSomebodysContext, HaveSomethingToDoAsLongAsATransportLives) {
  asio::io_context context;
  EventLoop loop(context);
  std::optional<RdmaTransport> unbound(std::in_place, 0, &loop);
  context.poll();
  EXPECT_FALSE(context.stopped());
  unbound.reset();
  EXPECT_FALSE(context.stopped()) << "another one may come";
  context.poll();
  EXPECT_TRUE(context.stopped());
}

}  // namespace
}  // namespace warpverbs::transport
