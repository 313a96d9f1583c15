// Tests how the software NIC ends a program.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "core/engine.hpp"

namespace softhca {
namespace {

/// A network that needs memory when there is none.
class StarvedNetwork : public Network {
 public:
  void OnTransition(QueuePair&) override {}
  bool Run(QueuePair&, uint64_t) override { return false; }
  bool Poll(uint64_t) override { throw std::bad_alloc(); }
  uint64_t NextNs() const override { return UINT64_MAX; }
  bool Listens() const override { return false; }
  void Wait(uint64_t) override {}
};

TEST(EngineDeathTest, SaysThatMemoryHasRunOut) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto starve = [] {
    const Engine engine(std::vector<std::unique_ptr<Hca>>{}, std::make_unique<StarvedNetwork>());
    std::this_thread::sleep_for(std::chrono::seconds(60));  // the engine ends it at once
  };
  EXPECT_DEATH(starve(), "softhca: the software NIC has no memory to go on. Raise the limit on memory");
}

}  // namespace
}  // namespace softhca
