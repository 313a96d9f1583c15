#include "common/command_line.hpp"

#include <gtest/gtest.h>

namespace warpverbs::programs {
namespace {

TEST(ParseScaled, TakesPlainNumbersAndSuffixes) {
  EXPECT_EQ(ParseScaled("0", 1024), 0u);
  EXPECT_EQ(ParseScaled("65536", 1024), 65536u);
  EXPECT_EQ(ParseScaled("1k", 1024), 1024u);
  EXPECT_EQ(ParseScaled("64K", 1024), 65536u);
  EXPECT_EQ(ParseScaled("2M", 1024), 2u << 20);
  EXPECT_EQ(ParseScaled("1g", 1024), 1u << 30);
  EXPECT_EQ(ParseScaled("5k", 1000), 5000u);
  EXPECT_EQ(ParseScaled("3G", 1000), 3'000'000'000u);
}

TEST(ParseScaled, RejectsAnythingElse) {
  for (const char* const text : {"", "k", "-1", "+1", "1.5", "1.5k", "1 k", " 1", "1kk", "1KiB", "1T", "0x10",
                                 "x", "18446744073709551616", "18446744073709551615k", "17179869184G"})
    EXPECT_FALSE(ParseScaled(text, 1024)) << text;
}

/// Returns the error for the value of an option with a check; "" if the value is accepted.
std::string ErrorFor(const CLI::Validator& check, std::string value) { return check(value); }

TEST(CommandLine, ErrorNamesTheValueAndWhatIsExpected) {
  EXPECT_EQ(ErrorFor(Bytes(1, 1 << 30), "1q"),
            "'1q' is invalid: expected 1 to 1073741824 bytes; k, M and G mean 2^10, 2^20 and 2^30");
  EXPECT_EQ(ErrorFor(Count(5, 1 << 30), "4"),
            "'4' is invalid: expected 5 to 1073741824; k, M and G mean 10^3, 10^6 and 10^9");
  EXPECT_EQ(ErrorFor(Integer(-1, 65535), "x"), "'x' is invalid: expected an integer from -1 to 65535");
  EXPECT_EQ(ErrorFor(OneOf({"cpu", "gpu", "both"}), "tpu"), "'tpu' is invalid: expected cpu, gpu or both");
  EXPECT_EQ(ErrorFor(Number("a bandwidth of at least 0", 0), "x"),
            "'x' is invalid: expected a bandwidth of at least 0");
}

TEST(CommandLine, ChecksEndsOfRanges) {
  EXPECT_EQ(ErrorFor(Bytes(1, 1 << 30), "1G"), "");
  EXPECT_NE(ErrorFor(Bytes(1, 1 << 30), "2G"), "");
  EXPECT_NE(ErrorFor(Bytes(1, 1 << 30), "0"), "");
  EXPECT_EQ(ErrorFor(Integer(-1, 5), "-1"), "");
  EXPECT_NE(ErrorFor(Integer(-1, 5), "-2"), "");
  EXPECT_NE(ErrorFor(Integer(0, 5), "1k"), "");
  EXPECT_EQ(ErrorFor(Number("", 0, 10), "1e1"), "");
  for (const char* const text : {"", "nan", "-nan", "inf", "-1", "11", "1s"})
    EXPECT_NE(ErrorFor(Number("", 0, 10), text), "") << text;
}

TEST(CommandLine, ExpandsSuffixesOfAnOption) {
  CLI::App app;
  uint64_t size = 0;
  uint32_t count = 0;
  app.add_option("-s", size)->transform(Bytes(1, 1 << 30));
  app.add_option("-n", count)->transform(Count(1, 1 << 30));
  const char* const argv[] = {"program", "-s", "64k", "-n", "2M"};
  EXPECT_FALSE(ParseCommandLine(app, 5, argv, [] {}));
  EXPECT_EQ(size, 65536u);
  EXPECT_EQ(count, 2'000'000u);
}

}  // namespace
}  // namespace warpverbs::programs
