#include "observe/pcap.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <utility>

#include "captures/capture.hpp"
#include "common/run_shell.hpp"
#include "observe/capturing_medium.hpp"
#include "wire/frames.hpp"

namespace softhca {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class PcapTest : public testing::Test {
 protected:
  PcapTest() { std::filesystem::create_directory(folder); }
  ~PcapTest() override { std::filesystem::remove_all(folder); }

  std::string Path(const std::string& name) const { return folder / name; }
  /// Returns what tshark reads from a file, a line per frame.
  std::string Dissect(const std::string& fields) const {
    const Result result = RunShell("tshark -r " + file + " -T fields " + fields + " 2>" + Path("errors"));
    EXPECT_EQ(result.exit_status, 0) << RunShell("cat " + Path("errors")).output;
    return result.output;
  }

  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("pcap_test." + std::to_string(getpid()));
  const std::string file = Path("frames.pcap");
};

TEST_F(PcapTest, TsharkDissectsTheFile) {
  if (!IsInstalled("tshark")) GTEST_SKIP() << "tshark is not installed";
  {
    PcapWriter writer(file);
    writer.Write(MakeFrame(FlowOverIpv4(), {.op = PacketOp::kWriteFirst, .dest_qpn = 0x12, .psn = 7},
                           std::vector<uint8_t>(1024)));
    writer.Write(MakeFrame(FlowOverIpv6(), {.op = PacketOp::kAcknowledge, .psn = 8, .ack = {0x1f, 3}}));
    writer.Write(MakeFrame(FlowOverRoceV1(), {.op = PacketOp::kReadRequest, .psn = 9, .memory = {64, 5, 6}}));
  }
  EXPECT_EQ(Dissect("-e infiniband.bth.opcode -e infiniband.bth.psn -e infiniband.bth.destqp "
                    "-e infiniband.aeth.msn -e infiniband.reth.dmalen -E separator=,"),
            "6,7,0x000012,,0\n"
            "17,8,0x000000,3,\n"
            "12,9,0x000000,,6\n");
}

TEST_F(PcapTest, TsharkDissectsFramesOfInfiniBand) {
  if (!IsInstalled("tshark")) GTEST_SKIP() << "tshark is not installed";
  {
    PcapWriter writer(file, mlx5::PortType::kInfiniBand);
    writer.Write(MakeFrame(FlowInSubnet(), {.op = PacketOp::kWriteOnly, .psn = 7, .memory = {64, 5, 6}},
                           std::vector<uint8_t>(6)));
    writer.Write(MakeFrame(FlowWithGrh(), {.op = PacketOp::kAcknowledge, .psn = 8, .ack = {0x1f, 3}}));
  }
  EXPECT_EQ(Dissect("-e infiniband.lrh.vl -e infiniband.lrh.sl -e infiniband.lrh.dlid -e infiniband.lrh.slid "
                    "-e infiniband.lrh.pktlen -e infiniband.grh.dgid -e infiniband.bth.opcode "
                    "-e infiniband.bth.psn -e infiniband.reth.dmalen -e infiniband.aeth.msn -E separator=,"),
            "0x03,11,4660,22136,12,,10,7,6,\n"
            "0x03,11,4660,22136,17,2001:db8::2,17,8,,3\n");
  EXPECT_EQ(Dissect("-Y _ws.malformed -e frame.number"), "");
}

TEST_F(PcapTest, WritesFramesWholeAndInOrder) {
  const Capture capture = ReadCapture("write_64k");
  {
    PcapWriter writer(file);
    for (int round = 0; round < 10; ++round) {  // more than the buffer holds
      for (const CapturedFrame& frame : capture.frames) writer.Write(frame.bytes);
    }
  }
  const std::vector<FrameBytes> frames = ReadPcap(file);
  ASSERT_EQ(frames.size(), 10 * capture.frames.size());
  for (size_t i = 0; i < frames.size(); ++i)
    EXPECT_EQ(frames[i], capture.frames[i % capture.frames.size()].bytes);
}

TEST_F(PcapTest, StampsFramesWithTheTimeOfDay) {
  if (!IsInstalled("tshark")) GTEST_SKIP() << "tshark is not installed";
  using Nanoseconds = std::chrono::duration<double, std::nano>;
  const auto now = [] { return Nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count(); };
  const double before = now();
  PcapWriter writer(file);
  writer.Write(MakeFrame(FlowOverIpv4(), {}));
  writer.Flush();
  const double stamp = std::stod(Dissect("-e frame.time_epoch")) * 1e9;
  EXPECT_GE(stamp, before - 1000);  // a double has no more digits
  EXPECT_LE(stamp, now() + 1000);
}

TEST_F(PcapTest, FlushedFramesSurviveAKill) {
  const FrameBytes frame = MakeFrame(FlowOverIpv4(), {.psn = 5});
  const pid_t child = fork();
  if (child == 0) {
    PcapWriter writer(file);
    writer.Write(frame);
    writer.Flush();
    raise(SIGKILL);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_THAT(ReadPcap(file), testing::ElementsAre(frame));
}

/// Sends nothing, but records what a file holds at each send.
class InspectingMedium : public Medium {
 public:
  explicit InspectingMedium(std::string file) : file_(std::move(file)) {}

  void Send(std::span<const uint8_t> frame) override {
    const std::vector<FrameBytes> frames = ReadPcap(file_);
    ASSERT_FALSE(frames.empty());
    EXPECT_THAT(frames.back(), testing::ElementsAreArray(frame));
  }
  void Flush() override {}
  size_t Receive(size_t, const FrameSink&) override { return 0; }
  void AddDescriptors(std::vector<int>&) const override {}

 private:
  std::string file_;
};

TEST_F(PcapTest, WritesAFrameBeforeItIsSent) {
  CapturingMedium medium(std::make_unique<InspectingMedium>(file), std::make_shared<PcapWriter>(file), {});
  for (const uint32_t psn : {1, 2}) medium.Send(MakeFrame(FlowOverIpv4(), {.psn = psn}));
  EXPECT_EQ(ReadPcap(file).size(), 2u);
}

TEST_F(PcapTest, WritesAFilePerProcess) {
  PcapWriter writer(Path("%p-and-%p.pcap"));
  const std::string process = std::to_string(getpid());
  EXPECT_TRUE(std::filesystem::exists(Path(process + "-and-" + process + ".pcap")));
}

TEST_F(PcapTest, RefusesAFileThatAnotherProcessWrites) {
  PcapWriter first(file);
  try {
    PcapWriter second(file);
    FAIL() << "it was opened twice";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(error.what(), "another process writes " + file + "; put %p in the name for a file per process");
  }
}

TEST_F(PcapTest, ReplacesTheFormerContents) {
  { std::ofstream(file) << std::string(1000, 'x'); }
  PcapWriter writer(file);
  EXPECT_TRUE(ReadPcap(file).empty());
}

TEST_F(PcapTest, SaysWhyAFileCannotBeOpened) {
  try {
    PcapWriter writer("/no/such/folder/x.pcap");
    FAIL() << "the file was opened";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "cannot open /no/such/folder/x.pcap for writing: No such file or directory");
  }
}

TEST_F(PcapTest, EndsWithAWholeFrameAndAMessageWhenTheFileIsFull) {
  const FrameBytes frame = MakeFrame(FlowOverIpv4(), {.op = PacketOp::kSendOnly}, std::vector<uint8_t>(1000));
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit limit{2 * frame.size(), before.rlim_max};
  testing::internal::CaptureStderr();
  {
    PcapWriter writer(file);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    for (int i = 0; i < 5; ++i) {
      writer.Write(frame);
      writer.Flush();
    }
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "softhca: " + file + " ends here, the rest is lost: File too large\n");
  EXPECT_THAT(ReadPcap(file), testing::ElementsAre(frame));
}

}  // namespace
}  // namespace softhca
