#include "wire/engine_threads.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "wire/engine_process.hpp"
#include "wire/packet_sink.hpp"

namespace softhca {
namespace {

/// Looks at one GID, each time at a new time.
class View {
 public:
  explicit View(const Gid& gid) : gid_(gid) {}
  std::optional<uint64_t> Look() { return threads_.StalledAt(gid_, now_ns_ += 2'000'000'000); }
  bool MayRun() { return threads_.MayRun(gid_, now_ns_ += 2'000'000'000); }
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
  EXPECT_EQ(view.Look(), kStoppedPeer);
  EXPECT_EQ(view.Look(), kStoppedPeer);
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

TEST(EngineThreads, KnowADeadEngineWhoseChildKeepsItsName) {
  EngineProcess peer(RandomGid(), EngineProcess::Kind::kWithChild);
  View view(peer.gid());
  EXPECT_TRUE(view.MayRun());
  peer.Stop();
  EXPECT_TRUE(view.MayRun());
  peer.Kill();
  EXPECT_FALSE(view.MayRun());
  EXPECT_FALSE(View(peer.gid()).MayRun());
}

TEST(EngineThreads, DoNotKnowWhetherAnEngineOfAnotherProcessNamespaceRuns) {
  const std::string name = std::string(30, '0') + "07/1/12/12";
  EngineThreads threads([&](const std::string&) { return std::vector{TakenName{.rest = name}}; });
  Gid gid{};
  EXPECT_FALSE(threads.MayRun(gid, 1'000'000'000)) << "nobody announces it";
  gid.back() = 7;
  EXPECT_TRUE(threads.MayRun(gid, 1'000'000'000));
  EXPECT_FALSE(threads.StalledAt(gid, 1'000'000'000));
}

TEST(EngineThreads, KnowNothingOfOtherAddresses) {
  EngineProcess peer(RandomGid());
  peer.Stop();
  EXPECT_FALSE(View(RandomGid()).Look());
}

/// Lists names three times: one list may miss a name.
std::vector<TakenName> ListSurely(const std::string& prefix) {
  std::vector<TakenName> all;
  for (int i = 0; i < 3; ++i) {
    for (TakenName& name : ListNames(prefix)) all.push_back(std::move(name));
  }
  return all;
}

TEST(EngineThreads, LookForAllEnginesAtOnce) {
  int lists = 0;
  EngineThreads threads([&](const std::string& prefix) { return ++lists, ListSurely(prefix); });
  const Gid gid = RandomGid();
  EXPECT_FALSE(threads.StalledAt(gid, 1'000'000'000));
  EngineProcess peer(gid);
  peer.Stop();
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(threads.StalledAt(RandomGid(), 1'000'000'000));
  EXPECT_FALSE(threads.StalledAt(gid, 1'049'000'000));
  EXPECT_EQ(lists, 3);
  EXPECT_EQ(threads.StalledAt(gid, 1'050'000'000), kStoppedPeer);
  EXPECT_EQ(lists, 4);
}

TEST(EngineThreads, FindEnginesThatAListMisses) {
  int lists = 0;
  EngineThreads threads(
      [&](const std::string& prefix) { return ++lists < 3 ? std::vector<TakenName>() : ListSurely(prefix); });
  EngineProcess peer(RandomGid());
  peer.Stop();
  EXPECT_EQ(threads.StalledAt(peer.gid(), 1'000'000'000), kStoppedPeer);
}

/// An engine whose state the test writes.
class EngineStateTest : public testing::Test {
 protected:
  EngineStateTest() {
    announced_.Announce({gid_}, kThread);
    std::filesystem::create_directories(task_);
  }
  ~EngineStateTest() override { std::filesystem::remove_all(proc_); }

  void SetState(const std::string& state, const std::string& sleeps) {
    std::ofstream(task_ + "/status") << "Name:\t" << EngineThreads::kName << "\nUmask:\t0022\nState:\t"
                                     << state << "\nTgid:\t12\nSeccomp:\t0\n"
                                     << sleeps;
  }
  void SetSleeps(int count) {
    SetState("R (running)",
             "voluntary_ctxt_switches:\t" + std::to_string(count) + "\nnonvoluntary_ctxt_switches:\t3\n");
  }
  std::optional<uint64_t> Look(uint64_t later_ns = 1'000'000) {
    return threads_.StalledAt(gid_, now_ns_ += later_ns);
  }

 private:
  static constexpr pid_t kThread = 12;

  static std::string MakeFolder() {
    std::string name = std::filesystem::temp_directory_path() / "proc-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    return name;
  }

  const Gid gid_ = RandomGid();
  const std::string proc_ = MakeFolder();
  const std::string task_ = proc_ + '/' + std::to_string(getpid()) + "/task/" + std::to_string(kThread);
  EngineThreads announced_;
  EngineThreads threads_{ListNames, proc_};
  uint64_t now_ns_ = 1'000'000'000;
};

TEST_F(EngineStateTest, IsTheNumberOfSleepsOfAnEngineThatIsAwake) {
  SetSleeps(70);
  EXPECT_EQ(Look(), 70u);
  SetState("S (sleeping)", "voluntary_ctxt_switches:\t70\n");
  EXPECT_FALSE(Look());
  SetState("D (disk sleep)", "voluntary_ctxt_switches:\t70\n");
  EXPECT_FALSE(Look());
}

TEST_F(EngineStateTest, IsUnknownIfTheKernelCountsNoSleeps) {
  SetState("R (running)", "");
  EXPECT_FALSE(Look());
}

TEST_F(EngineStateTest, IsKnownOfAStoppedEngine) {
  SetState("T (stopped)", "voluntary_ctxt_switches:\t70\n");
  EXPECT_EQ(Look(), kStoppedPeer);
  SetState("t (tracing stop)", "");
  EXPECT_EQ(Look(), kStoppedPeer);
}

TEST_F(EngineStateTest, IsReadOnceAMillisecond) {
  SetSleeps(70);
  EXPECT_EQ(Look(), 70u);
  SetSleeps(71);
  EXPECT_EQ(Look(999'999), 70u);
  EXPECT_EQ(Look(1), 71u);
}

}  // namespace
}  // namespace softhca
