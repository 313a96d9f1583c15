#include "machine/machine.hpp"

#include <gmock/gmock.h>

#include <cerrno>
#include <future>

#include "common/no_threads.hpp"
#include "common/thread.hpp"
#include "fake_machine.hpp"
#include "machine/process.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::programs {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Files, ReadsListsAndResolvesBelowItsRoot) {
  const FakeTree tree;
  tree.Write("/sys/b/name", "text\n");
  tree.Write("/sys/a", "");
  tree.Link("/sys/c", "/sys/b");
  const Files files = tree.files();
  EXPECT_EQ(files.Read("/sys/b/name"), "text");
  EXPECT_THAT(files.List("/sys"), ElementsAre("a", "b", "c"));
  EXPECT_EQ(files.Resolve("/sys/c/name"), "/sys/b/name");
  EXPECT_EQ(files.TryOpen("/sys/a"), 0);
}

TEST(Files, ReturnsNothingForMissingPaths) {
  const FakeTree tree;
  const Files files = tree.files();
  EXPECT_FALSE(files.Read("/none"));
  EXPECT_FALSE(files.Exists("/none"));
  EXPECT_THAT(files.List("/none"), IsEmpty());
  EXPECT_THAT(files.ReadBytes("/none", 10), IsEmpty());
  EXPECT_EQ(files.Resolve("/none"), "");
  EXPECT_EQ(files.TryOpen("/none"), ENOENT);
}

TEST(Files, LimitsTheBytesRead) {
  const FakeTree tree;
  tree.Write("/config", std::string(5000, 'x'));
  EXPECT_EQ(tree.files().ReadBytes("/config", 4097).size(), 4097u);
}

TEST(Kernel, FindsBuiltInModules) {
  const FakeTree tree;
  tree.Write("/proc/sys/kernel/osrelease", "6.1.0\n");
  tree.Write("/lib/modules/6.1.0/modules.builtin", "kernel/drivers/infiniband/hw/mlx5/mlx5_ib.ko\n");
  EXPECT_TRUE(HasModule(tree.files(), "mlx5_ib"));
  EXPECT_FALSE(HasModule(tree.files(), "lx5_ib"));
}

TEST(Process, FindsTheLoadedRdmaCore) {
  const Process process = InspectProcess(Files());
  EXPECT_THAT(process.verbs.file, testing::StartsWith("libibverbs.so"));
  EXPECT_GE(process.verbs.at_least, 42);
}

TEST(Process, ReadsTheVersionOfThePackage) {
  const FakeTree tree;
  tree.Write(
      "/var/lib/dpkg/status",
      "Package: libibverbs1-dbg\nStatus: install ok installed\nVersion: 1\n\n"
      "Package: libibverbs1\nStatus: install ok installed\nVersion: 50.0-2\n\nPackage: z\nVersion: 2\n");
  EXPECT_EQ(InspectProcess(tree.files()).verbs.package, "50.0-2");
}

TEST(RunWithin, AbandonsWorkThatHangs) {
  auto release = std::make_shared<std::promise<void>>();
  auto ended = std::make_shared<std::promise<void>>();
  const auto result = RunWithin<int>(std::chrono::seconds(0), [release, ended] {
    release->get_future().wait();
    ended->set_value();
    return 1;
  });
  EXPECT_FALSE(result);
  release->set_value();
  ended->get_future().wait();
}

TEST(RunWithin, ReturnsAndThrowsWhatTheWorkDoes) {
  EXPECT_EQ(RunWithin<int>(std::chrono::seconds(60), [] { return 7; }), 7);
  EXPECT_THROW(RunWithin<int>(std::chrono::seconds(60), []() -> int { throw std::runtime_error("x"); }),
               std::runtime_error);
}

TEST(RunWithin, ReportsThatNoThreadCanStart) {
  const tests::NoThreads none;
  try {
    RunWithin<int>(std::chrono::seconds(60), [] { return 7; });
    FAIL() << "nothing was thrown";
  } catch (const host::Error& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("Cannot start a thread for drivers that may hang: "));
  }
}

TEST(SplitRemedy, SeparatesFaultAndRemedy) {
  std::string remedy = "old";
  EXPECT_EQ(SplitRemedy(host::Error("open", "mlx5_0", "no. Never", "Do this"), remedy),
            "Cannot open mlx5_0: no. Never");
  EXPECT_EQ(remedy, "Do this");
  EXPECT_EQ(SplitRemedy(std::runtime_error("It broke."), remedy), "It broke");
  EXPECT_EQ(remedy, "");
}

}  // namespace
}  // namespace warpverbs::programs
