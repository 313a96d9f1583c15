#include <dirent.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>

// Functions that programs with hardened headers call instead.
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier): the C library's own names
char* __realpath_chk(const char* path, char* resolved, size_t resolved_size);
ssize_t __readlink_chk(const char* path, char* target, size_t size, size_t target_size);
ssize_t __readlinkat_chk(int folder, const char* path, char* target, size_t size, size_t target_size);
// NOLINTEND(bugprone-reserved-identifier)
}

namespace {

constexpr const char* kDevice = "/sys/class/infiniband/mlx5_0/device";
constexpr const char* kRealDevice = "/sys/devices/pcica7e:00/ca7e:00:00.0";

TEST(SysfsPath, ResolvesByEveryFunction) {
  const std::unique_ptr<char, decltype(&free)> real(realpath(kDevice, nullptr), free);
  EXPECT_STREQ(real.get(), kRealDevice);
  EXPECT_EQ(access(real.get(), R_OK), 0);
  dirent64** entries = nullptr;
  const int count = scandir64("/sys/class/infiniband", &entries, nullptr, alphasort64);
  ASSERT_EQ(count, 4);  // two devices, and the entries . and ..
  EXPECT_STREQ(entries[2]->d_name, "mlx5_0");
  for (int i = 0; i < count; ++i) free(entries[i]);
  free(entries);
}

TEST(SysfsPath, ResolvesInHardenedPrograms) {
  char resolved[PATH_MAX];
  EXPECT_STREQ(__realpath_chk(kDevice, resolved, sizeof resolved), kRealDevice);
  const auto target = [](auto read_link) {
    char text[64];
    const ssize_t bytes = read_link(text, sizeof text);
    return bytes < 0 ? "" : std::string(text, static_cast<size_t>(bytes));
  };
  const std::string plain = target([](char* text, size_t size) { return readlink(kDevice, text, size); });
  EXPECT_NE(plain, "");
  EXPECT_EQ(target([](char* text, size_t size) { return __readlink_chk(kDevice, text, size, size); }), plain);
  EXPECT_EQ(target([](char* text, size_t size) { return __readlinkat_chk(-1, kDevice, text, size, size); }),
            plain);
}

TEST(SysfsPath, OfThePeerMemoryModuleIsTheTrees) {
  const std::string version = std::string(getenv("SYSFS_PATH")) + "/module/nvidia_peermem/version";
  EXPECT_EQ(access("/sys/module/nvidia_peermem/version", R_OK), access(version.c_str(), R_OK));
  EXPECT_EQ(access("/sys/module/nvidia_peermem/version", R_OK), access("/sys/module/nvidia/version", R_OK))
      << "it is there where the driver is";
}

TEST(Sysfs, NamesAnInterfaceThatExists) {
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  ASSERT_NE(count, 0);
  ibv_context* const context = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  ibv_gid_entry entries[16];
  const ssize_t gids = ibv_query_gid_table(context, entries, std::size(entries), 0);
  EXPECT_EQ(ibv_close_device(context), 0);
  EXPECT_GT(gids, 0);
  for (ssize_t i = 0; i < gids; ++i) {
    std::ifstream file("/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/" + std::to_string(i));
    std::string name;
    EXPECT_TRUE(std::getline(file, name)) << i;
    EXPECT_NE(if_nametoindex(name.c_str()), 0u) << name;
    EXPECT_EQ(entries[i].ndev_ifindex, if_nametoindex(name.c_str()));
  }
  std::set<std::string> named;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(kDevice) + "/net"))
    named.insert(entry.path().filename());
  EXPECT_EQ(named, std::set<std::string>{"lo"});
}

}  // namespace
