#include "log/log.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <thread>
#include <vector>

#include "common/run_in_child.hpp"
#include "fake_cuda.hpp"
#include "host/device/softhca.hpp"
#include "host/endpoint/link.hpp"
#include "host/log/refusal.hpp"
#include "host/memory/registration_calls.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/host/event_thread.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/memory.hpp"

/// The library's log at each level of WARPVERBS_LOG.
namespace warpverbs::host {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

/// Runs a part of a program in a separate process, because each process reads the level only once.
template <class Part>
void RunWithStderr(int file, const Part& part) {
  tests::RunInChild([&] {
    dup2(file, STDERR_FILENO);
    part();
  });
}

/// Returns what a part of a program writes to stderr.
///
/// @param level  value of WARPVERBS_LOG; nullptr: unset
template <class Part>
std::string LogOf(const char* level, const Part& part) {
  const FileDescriptor file(memfd_create("log", MFD_CLOEXEC));
  RunWithStderr(file.get(), [&] {
    level == nullptr ? unsetenv("WARPVERBS_LOG") : setenv("WARPVERBS_LOG", level, 1);
    part();
  });
  std::string text(static_cast<size_t>(lseek(file.get(), 0, SEEK_END)), '\0');
  EXPECT_EQ(pread(file.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  return text;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// Opens, registers, connects and writes successfully.
void RunSuccessfully() {
  const Device device;
  Link link(device);
  link.Connect();
  EXPECT_TRUE(link.Write(3).ok());
}

/// Makes queues for a GPU that the NIC does not reach.
void UseFallbacks() {
  fake_cuda::Configure("");
  const Device device;
  const Gpu gpu;
  for (int times = 0; times < 2; ++times) {
    fake_cuda::FailCall("cuMemGetHandleForAddressRange", 1);
    fake_cuda::FailCall("cuPointerSetAttribute", 1);
    const Endpoint endpoint(device, {.gpu = &gpu});
    EXPECT_FALSE(endpoint.on_gpu());
  }
}

/// Registers GPU memory by the second method, and fails to register other memory.
void RegisterWithFallbacks() {
  fake_cuda::Configure("");
  const Device device;
  const GpuMemory memory(Gpu(), 4096);
  Inject(RegistrationFault{.by_dma_buf = EINVAL});
  EXPECT_EQ(MemoryRegion(device, memory.data(), 64).method(), RegistrationMethod::kPeerMemory);
  Inject(RegistrationFault{.by_address = EFAULT, .by_dma_buf = EINVAL});
  EXPECT_NE(SentenceOf([&] { MemoryRegion(device, memory.data(), 64); }), "");
}

TEST(LogLevels, AreParsedInLowerAndUpperCase) {
  EXPECT_EQ(ParseLogLevel("off"), LogLevel::kOff);
  EXPECT_EQ(ParseLogLevel("error"), LogLevel::kError);
  EXPECT_EQ(ParseLogLevel("warn"), LogLevel::kWarn);
  EXPECT_EQ(ParseLogLevel("INFO"), LogLevel::kInfo);
  EXPECT_EQ(ParseLogLevel("Debug"), LogLevel::kDebug);
  EXPECT_EQ(ParseLogLevel("trace"), LogLevel::kTrace);
  for (const char* const name : {"", "inf", "information", "3", "warn "}) {
    EXPECT_EQ(ParseLogLevel(name), std::nullopt) << name;
  }
}

TEST(Log, ReportsAnUnknownLevelOnceAndUsesWarn) {
  const std::string log = LogOf("loud", UseFallbacks);
  EXPECT_THAT(log, StartsWith("[warpverbs] [warn] WARPVERBS_LOG=loud is not a level: use off, error, warn, "
                              "info, debug or trace. Using warn.\n[warpverbs] [warn] queues of cuda:0"));
  EXPECT_EQ(Lines(log).size(), 2);
}

TEST(Log, IsEmptyIfAllGoesWell) {
  EXPECT_THAT(LogOf(nullptr, RunSuccessfully), IsEmpty());
  EXPECT_THAT(LogOf("", RunSuccessfully), IsEmpty());
}

TEST(Log, WarnsOncePerDeviceOfQueuesThatTheNicDoesNotReach) {
  const std::string log = LogOf(nullptr, UseFallbacks);
  EXPECT_THAT(Lines(log),
              testing::ElementsAre(
                  AllOf(StartsWith("[warpverbs] [warn] queues of cuda:0 on mlx5_0: they are in host memory; "
                                   "GPU memory failed: by dma-buf: "),
                        HasSubstr("CUDA_ERROR_UNKNOWN"), HasSubstr("; by peer memory: "),
                        EndsWith("or later, which export dma-bufs."))));
  EXPECT_THAT(LogOf("error", UseFallbacks), IsEmpty());
  EXPECT_THAT(LogOf("off", UseFallbacks), IsEmpty());
}

TEST(Log, WarnsOfADoorbellThatTheGpuDoesNotReach) {
  const auto part = [] {
    fake_cuda::Configure("uar_plain=0");
    const Device device;
    const Gpu gpu;
    EXPECT_EQ(Endpoint(device, {.gpu = &gpu}).doorbell_mode(), DoorbellMode::kHostProxy);
  };
  EXPECT_THAT(LogOf("warn", part),
              AllOf(StartsWith("[warpverbs] [warn] doorbell registers for cuda:0: a host thread rings "
                               "them; cuda:0 cannot reach the register: "),
                    EndsWith("or let a host thread ring: DoorbellMode::kHostProxy.\n")));
  EXPECT_THAT(LogOf("error", part), IsEmpty());
}

TEST(Log, DescribesDevicesChoicesAndConnectionsAtInfo) {
  const std::string log = LogOf("info", RunSuccessfully);
  EXPECT_THAT(
      log, AllOf(HasSubstr("[warpverbs] [info] opened mlx5_0, firmware "),
                 ContainsRegex("\\[info\\] created endpoint: QP [0-9]+ on mlx5_0 .*; address: .*GID [0-9]+ "
                               "\\(the best by type and reach\\).*; queue memory: .*; doorbell: "),
                 ContainsRegex("\\[info\\] connected QP [0-9]+ on mlx5_0 to QP [0-9]+ at .*MTU ")));
  EXPECT_THAT(log, Not(HasSubstr("registered"))) << "only at level debug";
}

TEST(Log, DescribesAChangedGidAtInfo) {
  const std::string log = LogOf("info", [] {
    const Device device;
    Endpoint endpoint(device);
    const GidEntry gid = device.Gids(device.ActivePort()).at(0);
    endpoint.SendFrom(gid, gid.gid);
  });
  EXPECT_THAT(log, ContainsRegex("\\[info\\] QP [0-9]+ on mlx5_0 sends from fe80:.*, RoCE v1, GID 0 "
                                 "\\(the best pair with the peer's fe80:"));
}

TEST(Log, DescribesGpusAndResetsAtInfo) {
  const std::string log = LogOf("info", [] {
    fake_cuda::Configure("");
    const Device device;
    const Gpu gpu;
    Endpoint endpoint(device, {.gpu = &gpu});
    endpoint.Reset();
  });
  EXPECT_THAT(log, AllOf(HasSubstr("[info] opened cuda:0, Fake GPU at 0000:41:00.0: exports dma-bufs\n"),
                         ContainsRegex("\\[info\\] reset QP [0-9]+ on mlx5_0\n")));
}

TEST(Log, DescribesTheRegistrationMethodAndFailures) {
  const std::string log = LogOf("debug", RegisterWithFallbacks);
  EXPECT_THAT(
      log,
      AllOf(ContainsRegex("\\[info\\] 64 bytes at 0x[0-9a-f]+ \\(GPU memory, cuda:0\\) on mlx5_0: a NIC "
                          "reaches it by peer memory; by dma-buf: Invalid argument \\(EINVAL\\)\n"),
            ContainsRegex("\\[debug\\] registered 64 bytes at 0x[0-9a-f]+ \\(GPU memory, cuda:0\\) on "
                          "mlx5_0 as GPU memory by peer memory\n"),
            ContainsRegex("\\[info\\] Cannot register 64 bytes .*: by dma-buf: Invalid argument .*; by peer "
                          "memory: Bad address \\(EFAULT\\).*\n")));
  const std::string info = LogOf("info", RegisterWithFallbacks);
  EXPECT_THAT(info, AllOf(HasSubstr("[info] Cannot register"), Not(HasSubstr("[debug]"))));
  EXPECT_THAT(LogOf("warn", RegisterWithFallbacks), IsEmpty()) << "the program gets the exception";
}

TEST(Log, DescribesExportsOnlyAtTrace) {
  EXPECT_THAT(LogOf("trace", RegisterWithFallbacks),
              HasSubstr("[trace] exported 64 bytes of memory of cuda:0\n"));
  EXPECT_THAT(LogOf("debug", RegisterWithFallbacks), Not(HasSubstr("[trace]")));
}

TEST(Log, WarnsOnceOfAnUnalignedGpuAddress) {
  const auto part = [](size_t offset, size_t bytes) {
    return [=] {
      fake_cuda::Configure("");
      const Device device;
      const GpuMemory memory(Gpu(), 65536);
      for (int times = 0; times < 2; ++times) {
        EXPECT_NE(MemoryRegion(device, memory.data() + offset, bytes).View().lkey, 0);
      }
    };
  };
  const std::string log = LogOf(nullptr, part(64, 4096));
  EXPECT_THAT(
      log, ContainsRegex("^\\[warpverbs\\] \\[warn\\] memory of GPUs on mlx5_0: 4096 bytes at 0x[0-9a-f]+40 "
                         "do not begin at a multiple of 256, "));
  EXPECT_EQ(Lines(log).size(), 1);
  EXPECT_THAT(LogOf(nullptr, part(512, 4096)), IsEmpty());
  EXPECT_THAT(LogOf(nullptr, part(64, 64)), IsEmpty()) << "a signal word may be anywhere";
  EXPECT_THAT(LogOf("error", part(64, 4096)), IsEmpty());
}

/// Raises an event and waits until it is seen.
template <class Cause>
void Raised(const Cause& cause) {
  const Device device;
  EventThread events;
  const Endpoint endpoint(device, {.events = &events});
  cause(device);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!endpoint.LastEvent() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_TRUE(endpoint.LastEvent().has_value());
}

TEST(Log, UsesTheSeverityOfAnEvent) {
  const auto fatal = [] { Raised([](const Device& device) { Raise(device, IBV_EVENT_DEVICE_FATAL); }); };
  EXPECT_THAT(LogOf("error", fatal),
              StartsWith("[warpverbs] [error] The device mlx5_0 failed (IBV_EVENT_DEVICE_FATAL). "));
  EXPECT_THAT(LogOf("off", fatal), IsEmpty());
  const auto down = [] { Raised([](const Device& device) { SetLink(device, false); }); };
  EXPECT_THAT(LogOf("warn", down), StartsWith("[warpverbs] [warn] Port 1 of mlx5_0 lost its link"));
  EXPECT_THAT(LogOf("error", down), IsEmpty());
}

TEST(Log, IsSilentOnTheDataPath) {
  static constexpr char kMark[] = "data\n";
  const std::string log = LogOf("trace", [] {
    const Device device;
    Link link(device);
    link.Connect();
    std::fputs(kMark, stderr);
    EXPECT_TRUE(link.Write(1000).ok());
    std::fputs(kMark, stderr);
  });
  EXPECT_EQ(Count(log, std::string(kMark) + kMark), 1);
}

TEST(Log, WritesOneLinePerEvent) {
  EXPECT_EQ(LogOf("error", [] { WriteLog(LogLevel::kError, "one\n  two\tthree\n"); }),
            "[warpverbs] [error] one; two?three\n");
  for (const std::string& line : Lines(LogOf("trace", UseFallbacks))) {
    EXPECT_THAT(line, ContainsRegex("^\\[warpverbs\\] \\[(warn|info|debug|trace)\\] [^ ]"));
  }
}

/// A pipe that is full until it is read.
class FullPipe {
 public:
  static constexpr size_t kPart = 4096;

  FullPipe() {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
    read_ = FileDescriptor(ends[0]);
    write_ = FileDescriptor(ends[1]);
    const std::vector<char> rubbish(kPart, '.');
    while (write(write_.get(), rubbish.data(), rubbish.size()) > 0) {
    }
    fcntl(write_.get(), F_SETFL, 0);  // from now on writers block
  }

  int write_end() const { return write_.get(); }

  /// Returns the next bytes of the pipe, or nothing.
  std::string Read() const {
    std::string part(kPart, '\0');
    const ssize_t got = read(read_.get(), part.data(), part.size());
    part.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return part;
  }

  /// Returns all bytes of the pipe.
  std::string Drain() const {
    std::string all;
    for (std::string part; !(part = Read()).empty();) all += part;
    return all;
  }

 private:
  FileDescriptor read_, write_;
};

TEST(Log, DropsLinesIfNobodyReadsAndReportsTheNumber) {
  const FullPipe pipe;
  RunWithStderr(pipe.write_end(), [&] {
    WriteLog(LogLevel::kError, "one");
    WriteLog(LogLevel::kError, "two");
    pipe.Drain();
    WriteLog(LogLevel::kError, "three");
    WriteLog(LogLevel::kError, std::string(5000, 'x'));  // more than one atomic write
  });
  EXPECT_EQ(pipe.Drain(),
            "[warpverbs] [warn] stderr was full; lines missing here: 2. Read it "
            "faster.\n"
            "[warpverbs] [error] three\n[warpverbs] [error] " +
                std::string(5000, 'x') + "\n");
}

TEST(Log, EndsALineThatFitsOnlyInPart) {
  const FullPipe pipe;
  RunWithStderr(pipe.write_end(), [&] {
    pipe.Read();
    WriteLog(LogLevel::kError, std::string(2 * FullPipe::kPart, 'x'));
    pipe.Drain();
    WriteLog(LogLevel::kError, "next");
  });
  EXPECT_EQ(pipe.Drain(),
            "\n[warpverbs] [warn] stderr was full; lines missing here: 1. Read it "
            "faster.\n[warpverbs] [error] next\n");
}

TEST(Log, IgnoresAClosedStderr) {
  EXPECT_THAT(LogOf("info", [] { Log(LogLevel::kInfo, []() -> std::string { throw std::bad_alloc(); }); }),
              IsEmpty());
}

}  // namespace
}  // namespace warpverbs::host
