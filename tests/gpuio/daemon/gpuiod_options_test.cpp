#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpuio/programs/gpuiod/options.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

std::variant<GpuiodOptions, programs::EarlyExit> Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "warpverbs-gpuiod");
  return ParseGpuiodOptions(static_cast<int>(arguments.size()), arguments.data());
}

TEST(GpuiodOptions, NameAMountAndItsServers) {
  const auto parsed = Parse({"/tmp=one:18600,[fe80::1]:2", "--device", "3", "--nics", "2", "--stats", "5",
                             "--log", "info", "--socket", "/tmp/socket"});
  const auto* const options = std::get_if<GpuiodOptions>(&parsed);
  ASSERT_NE(options, nullptr) << std::get<programs::EarlyExit>(parsed).text;
  EXPECT_EQ(options->daemon.mount, "/tmp");
  EXPECT_EQ(options->daemon.socket_path, "/tmp/socket");
  EXPECT_EQ(options->daemon.device.device, 3);
  EXPECT_EQ(options->daemon.device.max_nics, 2u);
  EXPECT_EQ(options->files.device, 3);
  EXPECT_EQ(options->files.transport.max_nics, 2u);
  EXPECT_THAT(options->files.servers,
              testing::ElementsAre(ServerAddress{"one", 18600}, ServerAddress{"fe80::1", 2}));
  EXPECT_EQ(options->statistics, std::chrono::seconds(5));
  EXPECT_EQ(options->log_level, LogLevel::kInfo);
}

TEST(GpuiodOptions, HaveASocketOfTheirOwnForEachMount) {
  const auto one = Parse({"/tmp=a:1"}), two = Parse({"/usr=a:1"});
  const std::string a = std::get<GpuiodOptions>(one).daemon.socket_path,
                    b = std::get<GpuiodOptions>(two).daemon.socket_path;
  EXPECT_NE(a, b);
  EXPECT_LT(a.size(), 108u);
}

TEST(GpuiodOptions, RefuseOtherForms) {
  for (const char* const mount :
       {"", "/tmp", "/tmp=", "=a:1", "/tmp=a", "/tmp=a:", "/tmp=:1", "/tmp=a:0", "/tmp=a:65536", "/tmp=a:1,",
        "/tmp=a:1x", "/tmp=a:b:1", "/tmp=[]:1", "/tmp=[a:1", "/absent-folder=a:1"}) {
    const auto parsed = Parse({mount});
    const auto* const exit = std::get_if<programs::EarlyExit>(&parsed);
    ASSERT_NE(exit, nullptr) << mount;
    EXPECT_EQ(exit->status, 2) << mount;
    EXPECT_FALSE(exit->text.empty());
  }
  const auto nothing = Parse({});
  EXPECT_EQ(std::get<programs::EarlyExit>(nothing).status, 2);
}

TEST(GpuiodOptions, MountByFuseIfAsked) {
  const auto plain = Parse({"/tmp=a:1"});
  EXPECT_FALSE(std::get<GpuiodOptions>(plain).mount.has_value());
  const auto fuse = Parse({"/tmp=a:1", "--fuse", "--allow-other", "--nics", "3"});
  const auto& mount = std::get<GpuiodOptions>(fuse).mount;
  ASSERT_TRUE(mount.has_value());
  EXPECT_EQ(mount->folder, "/tmp");
  EXPECT_TRUE(mount->allow_other);
  EXPECT_EQ(mount->max_nics, 3u);
  const auto other = Parse({"/tmp=a:1", "--allow-other"});
  EXPECT_EQ(std::get<programs::EarlyExit>(other).status, 2);
}

TEST(GpuiodOptions, HaveHelp) {
  const auto parsed = Parse({"--help"});
  const auto& exit = std::get<programs::EarlyExit>(parsed);
  EXPECT_EQ(exit.status, 0);
  for (const char* const option :
       {"--socket", "--device", "--nics", "--timeout", "--log", "--stats", "--fuse"})
    EXPECT_THAT(exit.text, testing::HasSubstr(option));
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
