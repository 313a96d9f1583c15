#include "wire/engine_threads.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "wire/engine_process.hpp"

namespace softhca {
namespace {

/// Looks at one GID, each time at a new time.
class View {
 public:
  explicit View(const Gid& gid) : gid_(gid) {}
  std::optional<uint64_t> Look() { return threads_.StalledAt(gid_, now_ns_ += 2'000'000'000); }
  /// Looks until the answer is "nothing", which it must be soon.
  bool RunsSoon() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (Look()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

 private:
  Gid gid_;
  EngineThreads threads_;
  uint64_t now_ns_ = 1'000'000'000;
};

TEST(EngineThreads, KnowAStoppedEngine) {
  EngineProcess peer(RandomGid());
  View view(peer.gid());
  EXPECT_TRUE(view.RunsSoon()) << "it sleeps";
  peer.Stop();
  const auto ran_ns = view.Look();
  EXPECT_TRUE(ran_ns);
  EXPECT_EQ(view.Look(), ran_ns) << "it has not run";
  peer.Continue();
  EXPECT_TRUE(view.RunsSoon());
}

TEST(EngineThreads, ExcuseNoDeadEngine) {
  EngineProcess peer(RandomGid(), EngineProcess::Kind::kWithChild);
  View view(peer.gid());
  peer.Stop();
  EXPECT_TRUE(view.Look());
  peer.Kill();
  EXPECT_FALSE(view.Look()) << "its child keeps the name, and nothing has waited for it yet";
  EXPECT_FALSE(View(peer.gid()).Look());
}

TEST(EngineThreads, KnowNothingOfOtherAddresses) {
  EngineProcess peer(RandomGid());
  peer.Stop();
  EXPECT_FALSE(View(RandomGid()).Look());
}

TEST(EngineThreads, LookAtMostOnceASecond) {
  EngineThreads threads;
  const Gid gid = RandomGid();
  EXPECT_FALSE(threads.StalledAt(gid, 1'000'000'000));
  EngineProcess peer(gid);
  peer.Stop();
  EXPECT_FALSE(threads.StalledAt(gid, 1'999'999'999));
  EXPECT_TRUE(threads.StalledAt(gid, 2'000'000'000));
}

}  // namespace
}  // namespace softhca
