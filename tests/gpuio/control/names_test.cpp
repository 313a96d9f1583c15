#include "gpuio/control/names.hpp"

#include <gtest/gtest.h>

#include <array>
#include <climits>
#include <string>

namespace warpverbs::inline v0_2::gpuio {
namespace {

constexpr IovId kId{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
                    0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};
const std::string kHex = "00112233445566778899aabbccddeeff";

TEST(LinkName, PrintsAndParsesAllForms) {
  const std::vector<std::pair<LinkName, std::string>> forms{
      {{.id = kId}, ""},
      {{.id = kId, .block_bytes = 4096}, ".b4096"},
      {{.id = kId, .ring = RingConfig{}}, ".r0"},
      {{.id = kId, .ring = RingConfig{.for_read = false, .io_depth = 16}}, ".w16"},
      {{.id = kId, .ring = RingConfig{.io_depth = -4, .timeout_ms = 20}}, ".r-4.t20"},
      {{.id = kId, .ring = RingConfig{.priority = -1}}, ".r0.ph"},
      {{.id = kId, .ring = RingConfig{.priority = 1, .flags = 2}}, ".r0.pl.f10"},
      {{.id = kId,
        .block_bytes = 1,
        .ring = RingConfig{.for_read = false, .io_depth = INT_MIN, .timeout_ms = INT_MAX, .flags = 3}},
       ".b1.w-2147483648.t2147483647.f11"},
      {{.id = kId, .gpu = 0}, ".gdr.d0"},
      {{.id = kId, .gpu = 15}, ".gdr.d15"},
  };
  for (const auto& [name, suffix] : forms) {
    EXPECT_EQ(name.ToString(), kHex + suffix);
    EXPECT_EQ(LinkName::Parse(kHex + suffix), name) << suffix;
  }
}

TEST(LinkName, RefusesEverythingElse) {
  for (const char* const suffix :
       {".",          ".b",       ".b0",          ".b04",       ".b+4",
        ".b-4",       ".b4.b4",   ".r",           ".r0.w0",     ".r-0",
        ".r+1",       ".r01",     ".r2147483648", ".ph",        ".r0.p",
        ".r0.ph.pl",  ".r0.t",    ".r0.t0",       ".r0.t-1",    ".r0.f",
        ".r0.f0",     ".r0.f2",   ".r0.f01",      ".r0.f10.t2", ".gdr",
        ".gdr.d",     ".gdr.d-1", ".gdr.d01",     ".gdr.d1 ",   ".gdr.d99999999999",
        ".b4.gdr.d0", " ",        "/x",           ".r0 "})
    EXPECT_EQ(LinkName::Parse(kHex + suffix), std::nullopt) << suffix;
  EXPECT_EQ(LinkName::Parse(""), std::nullopt);
  EXPECT_EQ(LinkName::Parse(kHex.substr(1)), std::nullopt);
  EXPECT_EQ(LinkName::Parse("00112233445566778899AABBCCDDEEFF"), std::nullopt) << "its link has another name";
  EXPECT_EQ(LinkName::Parse("g0112233445566778899aabbccddeeff"), std::nullopt);
}

TEST(GpuUri, PrintsAndParsesBothForms) {
  GpuUri uri{.device = 3, .allocation_bytes = 65536, .offset = 256, .bytes = 4096};
  EXPECT_EQ(uri.ToString(), "gdr://v2/device/3/allocation/65536/offset/256/size/4096/dmabuf");
  EXPECT_EQ(GpuUri::Parse(uri.ToString()), uri);
  uri.ipc_handle.emplace();
  uri.ipc_handle->fill(0xab);
  std::string hex;
  for (int i = 0; i < 64; ++i) hex += "ab";
  EXPECT_EQ(uri.ToString(), "gdr://v2/device/3/allocation/65536/offset/256/size/4096/ipc/" + hex);
  EXPECT_EQ(GpuUri::Parse(uri.ToString()), uri);
  std::string upper = uri.ToString();
  for (size_t i = upper.size() - 128; i < upper.size(); ++i)
    upper[i] = static_cast<char>(std::toupper(upper[i]));
  EXPECT_EQ(GpuUri::Parse(upper), uri);
}

TEST(GpuUri, RefusesWhatLeavesItsAllocation) {
  const auto parse = [](const std::string& allocation, const std::string& offset, const std::string& size) {
    return GpuUri::Parse("gdr://v2/device/0/allocation/" + allocation + "/offset/" + offset + "/size/" +
                         size + "/dmabuf")
        .has_value();
  };
  EXPECT_TRUE(parse("10", "4", "6"));
  EXPECT_TRUE(parse("18446744073709551615", "0", "18446744073709551615"));
  EXPECT_FALSE(parse("10", "4", "7"));
  EXPECT_FALSE(parse("10", "10", "1"));
  EXPECT_FALSE(parse("10", "11", "1"));
  EXPECT_FALSE(parse("0", "0", "1"));
  EXPECT_FALSE(parse("10", "0", "0"));
  EXPECT_FALSE(parse("10", "18446744073709551615", "2")) << "the sum wraps";
  EXPECT_FALSE(parse("18446744073709551616", "0", "1"));
  EXPECT_FALSE(parse("010", "0", "1"));
  EXPECT_FALSE(parse("+10", "0", "1"));
  EXPECT_FALSE(parse(" 10", "0", "1"));
  EXPECT_FALSE(parse("0x10", "0", "1"));
}

TEST(GpuUri, RefusesOtherForms) {
  const std::string good =
      GpuUri{.device = 0, .allocation_bytes = 8, .bytes = 8, .ipc_handle = std::array<uint8_t, 64>{}}
          .ToString();
  ASSERT_TRUE(GpuUri::Parse(good).has_value());
  EXPECT_FALSE(GpuUri::Parse(good + "0").has_value());
  EXPECT_FALSE(GpuUri::Parse(good + "/").has_value());
  EXPECT_FALSE(GpuUri::Parse(good.substr(0, good.size() - 1)).has_value());
  EXPECT_FALSE(GpuUri::Parse("gdr://v1" + good.substr(8)).has_value());
  EXPECT_FALSE(GpuUri::Parse("GDR" + good.substr(3)).has_value());
  EXPECT_FALSE(GpuUri::Parse("").has_value());
  EXPECT_FALSE(GpuUri::Parse("gdr://device/0/ptr/140000000000/size/8").has_value());
  EXPECT_FALSE(GpuUri::Parse("gdr://v2/device/-1/allocation/8/offset/0/size/8/dmabuf").has_value());
  EXPECT_FALSE(GpuUri::Parse("gdr://v2/allocation/8/device/0/offset/0/size/8/dmabuf").has_value());
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_FALSE(GpuUri::Parse(good.substr(0, length)).has_value());
}

TEST(ShmNameOf, AcceptsFilesOfDevShmOnly) {
  EXPECT_EQ(ShmNameOf(std::string_view("/dev/shm/hf3fs-iov-1")), "hf3fs-iov-1");
  for (const char* const target : {"", "/dev/shm", "/dev/shm/", "/dev/shm/.", "/dev/shm/..", "/dev/shm/../x",
                                   "/dev/shm/a/b", "/tmp/x", "dev/shm/x", " /dev/shm/x"})
    EXPECT_EQ(ShmNameOf(std::string_view(target)), "") << target;
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
