// The output of both programs, above all in failures.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>

#include "both_sides.hpp"
#include "fake_cuda.hpp"
#include "fake_gaudi.hpp"
#include "fake_kernels.hpp"
#include "golden.hpp"
#include "rdma_demo/kernel.hpp"
#include "rdma_demo/step_result.hpp"
#include "warpverbs/host/dma_buf.hpp"

namespace rdma_demo {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class RdmaDemoSides : public testing::Test {
 protected:
  RdmaDemoSides() {
    fake_cuda::Configure("");
    fake_gaudi::Configure({.devices = 2});
    SetKernels(KernelBehavior::kDouble);
  }
};

std::string SummaryIn(const std::string& output) {
  return output.substr(std::min(output.find("Summary of "), output.size()));
}

TEST_F(RdmaDemoSides, BothSidesPrintASummary) {
  const BothResults both = RunBoth(MakeOptions("gaudi"), MakeOptions("cuda"));
  EXPECT_TRUE(golden::MatchesFile("server.txt", SummaryIn(both.server.output)));
  EXPECT_TRUE(golden::MatchesFile("client.txt", SummaryIn(both.client.output)));
}

TEST_F(RdmaDemoSides, RefusedReadIsUnsupported) {
  for (const char* const kind : {"host", "cuda", "gaudi"}) {
    Options server = MakeOptions(kind);
    server.serves_reads = false;
    const BothResults both = RunBoth(server, MakeOptions("host"));
    EXPECT_TRUE(both.succeeded()) << both.output();
    EXPECT_TRUE(golden::MatchesFile("client_refused.txt", SummaryIn(both.client.output)));
    EXPECT_THAT(both.server.output,
                AllOf(HasSubstr("  RDMA read         unsupported: the client says: Cannot read 4096 bytes"),
                      HasSubstr("   the queue pairs are reset and connected again\n"),
                      HasSubstr("  RDMA write        ok: wrote 4096 bytes, with a notification\n")));
  }
}

TEST_F(RdmaDemoSides, NamesTheWrongIntegers) {
  SetKernels(KernelBehavior::kLeaveAsIs);
  const BothResults both = RunBoth(MakeOptions("cuda", 16), MakeOptions("host", 16));
  EXPECT_FALSE(both.server.succeeded);
  EXPECT_FALSE(both.client.succeeded);
  EXPECT_THAT(
      both.client.output,
      AllOf(HasSubstr("  send/receive 2    failed: The data are wrong: integer 0 is 200, not 400; 4 of "
                      "4 are wrong. "),
            HasSubstr("  RDMA write        ok: "), HasSubstr("Not all is well.\n")));
  EXPECT_THAT(
      both.server.output,
      AllOf(HasSubstr("  send/receive 3    failed: the client says: The data are wrong: integer 0 is "),
            HasSubstr("  RDMA read         ok: "), HasSubstr("Not all is well.\n")));
}

TEST_F(RdmaDemoSides, ReportsAFailedKernelAndContinues) {
  SetKernels(KernelBehavior::kFail);
  Options client = MakeOptions("host");
  client.timeout = milliseconds(500);  // an answer never comes
  const BothResults both = RunBoth(MakeOptions("cuda"), client);
  EXPECT_THAT(both.server.output,
              AllOf(HasSubstr("  send/receive 1    failed: Cannot launch the kernel on cuda:0.\n"),
                    HasSubstr("Not all is well.\n")));
  EXPECT_THAT(both.client.output,
              HasSubstr("  send/receive 3    failed: Cannot receive a message: timeout: "));
  EXPECT_FALSE(both.server.succeeded);
  EXPECT_FALSE(both.client.succeeded);
}

TEST_F(RdmaDemoSides, ReportsAKernelThatDoesNotEnd) {
  SetKernels(KernelBehavior::kNeverEnd);
  Options server = MakeOptions("cuda"), client = MakeOptions("host");
  server.timeout = client.timeout = milliseconds(500);
  const BothResults both = RunBoth(server, client);
  EXPECT_THAT(
      both.server.output,
      HasSubstr("  send/receive 1    failed: Cannot run the kernel on cuda:0: it did not finish in "));
  EXPECT_THAT(both.client.output, HasSubstr("  send/receive 1    failed: "));
}

TEST_F(RdmaDemoSides, ReportsThatTheSidesDisagree) {
  const BothResults both = RunBoth(MakeOptions("host", 8), MakeOptions("host", 12));
  EXPECT_THAT(both.server.error,
              StartsWith("The two sides do not agree: messages have 8 bytes here and 12 there. Give both"));
  EXPECT_THAT(both.client.error,
              StartsWith("The two sides do not agree: messages have 12 bytes here and 8 there. Give both"));
  EXPECT_THAT(both.client.output, HasSubstr("  send/receive 1    not done\n"));
}

TEST_F(RdmaDemoSides, ReportsThatNoPeerConnected) {
  Options options = MakeOptions("host");
  options.wait = milliseconds(100);
  options.server = "127.0.0.1";
  const SideResult server = ResultOf([&](std::ostream& out) {
    return RunServer(warpverbs::host::TcpListener({"127.0.0.1", 0}), options, out);
  });
  EXPECT_THAT(server.error, HasSubstr("no peer connected within 0."));  // what is left of the 0.1 s
  EXPECT_THAT(server.output, HasSubstr("  RDMA read         not done\n"));
  options.port = warpverbs::host::TcpListener({"127.0.0.1", 0}).port();  // no longer in use
  const SideResult client = ResultOf([&](std::ostream& out) { return RunClient(options, out); });
  EXPECT_THAT(client.error, StartsWith("Cannot connect to 127.0.0.1 port "));
}

/// A connection by another program, which sends other words or none.
class Stranger {
 public:
  explicit Stranger(uint16_t port, const std::string& words = "GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
      : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("a stranger cannot connect");
    if (send(socket_.get(), words.data(), words.size(), MSG_NOSIGNAL) < 0)
      throw std::runtime_error("a stranger cannot speak");
  }

 private:
  warpverbs::host::FileDescriptor socket_;
};

/// Serves a client that comes after others. Returns what the server did.
SideResult ServeAClient(warpverbs::host::TcpListener listener) {
  Options client = MakeOptions("host");
  client.server = "127.0.0.1";
  client.port = listener.port();
  SideResult server;
  {
    const std::jthread serving([&] {
      server = ResultOf(
          [&](std::ostream& out) { return RunServer(std::move(listener), MakeOptions("host"), out); });
    });
    EXPECT_TRUE(ResultOf([&](std::ostream& out) { return RunClient(client, out); }).succeeded);
  }
  EXPECT_TRUE(server.succeeded) << server.output;
  return server;
}

TEST_F(RdmaDemoSides, ServesTheClientAfterAStranger) {
  warpverbs::host::TcpListener listener({"127.0.0.1", 0});
  const Stranger stranger(listener.port());  // is ahead of the client in the queue
  ServeAClient(std::move(listener));
}

/// What a client of this library says first.
const std::string kHello("WVEx\0\2\0\0", 8);

TEST_F(RdmaDemoSides, ServesTheClientAfterOneThatDied) {
  warpverbs::host::TcpListener listener({"127.0.0.1", 0});
  { const Stranger dead(listener.port(), kHello); }
  const SideResult server = ServeAClient(std::move(listener));
  EXPECT_THAT(server.output, HasSubstr("   not a client: Cannot swap introductions with 127.0.0.1 port "));
}

TEST_F(RdmaDemoSides, GivesUpWhenOnlyASilentClientConnects) {
  Options options = MakeOptions("host");
  options.wait = milliseconds(300);
  warpverbs::host::TcpListener listener({"127.0.0.1", 0});
  const Stranger silent(listener.port(), kHello);
  const SideResult server =
      ResultOf([&](std::ostream& out) { return RunServer(std::move(listener), options, out); });
  EXPECT_THAT(server.output, HasSubstr("   not a client: Cannot swap introductions with 127.0.0.1"));
  EXPECT_THAT(server.error, HasSubstr("the only clients in time did not introduce themselves"));
}

TEST_F(RdmaDemoSides, GivesUpWhenOnlyASilentStrangerConnects) {
  Options options = MakeOptions("host");
  options.wait = milliseconds(300);
  warpverbs::host::TcpListener listener({"127.0.0.1", 0});
  const Stranger stranger(listener.port(), "");
  const auto limit = std::chrono::steady_clock::now() + options.timeout;
  const SideResult server =
      ResultOf([&](std::ostream& out) { return RunServer(std::move(listener), options, out); });
  EXPECT_LT(std::chrono::steady_clock::now(), limit);
  EXPECT_THAT(server.error, HasSubstr("no peer connected within "));
}

TEST(RdmaDemoOptions, HaveTheDefaultsOfTheHelp) {
  std::string program = "rdma_client", server = "there";
  char* words[] = {program.data(), server.data(), nullptr};
  Options options;
  EXPECT_EQ(ParseCommandLine(2, words, Role::kClient, options), std::nullopt);
  EXPECT_EQ(options.server, "there");
  EXPECT_EQ(options.port, 20000);
  EXPECT_EQ(options.bytes, uint64_t{4194304});
}

TEST(RdmaDemoKernel, DoublesAnyInteger) {
  constexpr int32_t kMin = std::numeric_limits<int32_t>::min(), kMax = std::numeric_limits<int32_t>::max();
  const int32_t from[] = {1, -1, 1 << 30, kMax, kMin};
  int32_t to[5] = {};
  for (uint64_t rank : {0, 1}) Double(rank, 2, DoubleJob{.from = from, .to = to, .count = 5});
  EXPECT_THAT(to, testing::ElementsAre(2, -2, kMin, -2, 0));
}

TEST(RdmaDemoStepResult, RoundTripsAsALine) {
  for (const StepResult& result :
       {StepResult{StepCode::kOk, "sent 4"}, StepResult{StepCode::kUnsupported, "no: 0x13"},
        StepResult{StepCode::kFailed, ""}}) {
    const StepResult there = StepResult::FromText(result.ToText());
    EXPECT_EQ(there.code, result.code);
    EXPECT_EQ(there.text, result.text);
  }
  for (const char* line : {"", "OK", "okay then", " ok"}) {
    EXPECT_THROW(StepResult::FromText(line), std::runtime_error) << line;
  }
}

TEST(RdmaDemoStepResult, CombinesToTheWorseOfBothSides) {
  const StepResult fine{StepCode::kOk, "fine"}, refused{StepCode::kUnsupported, "no"},
      failed{StepCode::kFailed, "bad"};
  EXPECT_EQ(Combine(fine, fine, "the peer").text, "fine");
  EXPECT_EQ(Combine(fine, refused, "the peer").text, "the peer says: no");
  EXPECT_EQ(Combine(refused, failed, "the peer").text, "the peer says: bad");
  EXPECT_EQ(Combine(failed, refused, "the peer").text, "bad");
  EXPECT_EQ(Combine(fine, failed, "the peer").code, StepCode::kFailed);
}

TEST_F(RdmaDemoSides, PrintsNoControlCharactersOfAPeer) {
  const warpverbs::host::TcpListener listener({"127.0.0.1", 0});
  Options options = MakeOptions("host");
  options.server = "127.0.0.1";
  options.port = listener.port();
  const std::jthread stranger([&] {
    warpverbs::host::TcpExchange exchange = listener.Accept(warpverbs::host::DeadlineIn(options.wait));
    const std::string words = "\x1b[2Jhello\n";
    exchange.Swap({reinterpret_cast<const uint8_t*>(words.data()), words.size()}, "a greeting",
                  warpverbs::host::DeadlineIn(options.wait));
  });
  const SideResult client = ResultOf([&](std::ostream& out) { return RunClient(options, out); });
  EXPECT_THAT(client.error, HasSubstr("Cannot understand the peer: it says '?[2Jhello?'. Run "));
}

}  // namespace
}  // namespace rdma_demo
