#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "common/run_shell.hpp"

namespace {

using testing::EndsWith;
using testing::HasSubstr;

struct Example {
  const char* name;
  const char* last_line;
  const char* softhca_options = "";
};

void PrintTo(const Example& example, std::ostream* out) { *out << example.name; }

const Example kExamples[] = {
    {"abort", "One wait timed out, one was aborted, and the third saw the write arrive."},
    {"batch", "Nine operations took one doorbell: a column of eight words, and its count."},
    {"bitwise", "0x30 | 0x0f = 0x3f, & 0x3c = 0x3c, ^ 0xff = 0xc3."},
    {"block", "128 threads of 4 warps sent each other's words."},
    {"checked", "Five mistakes were refused, and the queue still works."},
    {"compare_swap", "1 took the lock, 2 found it held by 1."},
    {"doorbell_modes", "The same kernel wrote in all three doorbell modes."},
    {"dump", "Two reads, each with its dump."},
    {"errors", "The write past the end was refused; after a reset the next one arrived."},
    {"fetch_add", "Drew 1000, 1001 and 1002; the counter is at 1103."},
    {"flush", "1000 writes arrived with 126 completions."},
    {"four_byte_atomics", "The middle one of three 4-byte words went from -1 by 4, 40 and 43 to 7."},
    {"long_message", "20000 bytes went as 5 messages of up to 4096 bytes.", "--max-message 4k"},
    {"low_level", "8 writes, one doorbell, 8 completions."},
    {"masked_atomics", "Four counters in one word counted, and an owner changed next to its state."},
    {"nop_fence", "Copied 4096 bytes within the peer's memory."},
    {"put_signal", "The consumer's sum is 5050."},
    {"read", "Read 800 bytes of the peer; their sum is 5050."},
    {"receive", "Received 100 messages; their sum is 5050."},
    {"ring", "Writes 0 and 1 are done, write 2 is the cause of the failure."},
    {"send_receive", "Sent 80 bytes, and 8 bytes with an immediate."},
    {"shared", "4 threads wrote 1000 words through a queue of 16 slots."},
    {"shared_completions", "3 queues completed 300 writes on one ring."},
    {"signal", "Two kernels did 50 rounds in step."},
    {"swap", "Swapped 11 for 22, then stored 33."},
    {"two_entries", "8 and 72 bytes went as one message of 80, and came back as two."},
    {"wait_cq", "The NIC incremented a counter after 4 completions."},
    {"warp", "32 lanes mirrored 32 words with one doorbell."},
    {"write", "Two kernels wrote 1024 and 8 bytes."},
    {"write_imm", "The peer got 1024 bytes and the immediate 7."},
    {"write_inline", "100 points arrived that were never in registered memory."},
};

std::string Program(const Example& example) { return std::string(PROGRAMS "/") + example.name; }

std::string Text(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

ptrdiff_t Lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

std::vector<std::filesystem::path> FilesOf(const std::string& folder, const std::string& extension) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == extension) files.push_back(entry.path());
  }
  return files;
}

class DeviceExample : public testing::TestWithParam<Example> {};

TEST_P(DeviceExample, VerifiesItsData) {
  const Result result =
      RunShell(std::string(SOFTHCA " ") + GetParam().softhca_options + " -- " + Program(GetParam()));
  EXPECT_EQ(result.exit_status, 0) << result.output;
  EXPECT_THAT("\n" + result.output, EndsWith(std::string("\n") + GetParam().last_line + "\n"));
}

TEST_P(DeviceExample, HelpIsOneLine) {
  const Result result = RunShell(Program(GetParam()) + " --help");
  EXPECT_EQ(result.exit_status, 0);
  EXPECT_THAT(result.output, testing::MatchesRegex("Teaches .*\\.\n"));
  EXPECT_EQ(Lines(result.output), 1) << result.output;
}

INSTANTIATE_TEST_SUITE_P(, DeviceExample, testing::ValuesIn(kExamples),
                         [](const auto& test) { return std::string(test.param.name); });

// All examples share this code, so one program suffices.
TEST(DeviceExamples, NameThePortThatIsDown) {
  const Result result = RunShell(SOFTHCA " --port-down all -- " PROGRAMS "/write");
  EXPECT_EQ(result.exit_status, 1) << result.output;
  EXPECT_THAT(result.output, HasSubstr("no port is active"));
}

TEST(DeviceExamples, RefuseUnknownOptionsWithStatus2) {
  const Result result = RunShell(PROGRAMS "/write --bytes 7");
  EXPECT_EQ(result.exit_status, 2) << result.output;
  EXPECT_THAT(result.output, EndsWith("Options: --help.\n"));
}

TEST(DeviceExamples, HaveAtMost60Lines) {
  for (const auto& file : FilesOf(EXAMPLES, ".cpp")) EXPECT_LE(Lines(Text(file)), 60) << file;
}

TEST(DeviceExamples, AreRunHereAndListedInTheirReadme) {
  std::set<std::string> names;
  for (const Example& example : kExamples) names.insert(example.name);
  std::set<std::string> present;
  for (const auto& file : FilesOf(EXAMPLES, ".cpp")) present.insert(file.stem());
  EXPECT_EQ(names, present);
  const std::string readme = Text(EXAMPLES "/README.md");
  for (const std::string& name : present) EXPECT_THAT(readme, HasSubstr("\n| [`" + name + "`](" + name + ".cpp) | "));
}

}  // namespace
