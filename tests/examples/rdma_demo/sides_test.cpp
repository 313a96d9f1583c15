// What both programs say where not all is well.
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

#include "both.hpp"
#include "fake_cuda.hpp"
#include "fake_gaudi.hpp"
#include "fake_kernels.hpp"
#include "golden.hpp"
#include "rdma_demo/kernel.hpp"
#include "rdma_demo/outcome.hpp"
#include "warpverbs/host/file_descriptor.hpp"

namespace rdma_demo {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class RdmaDemoOutcomes : public testing::Test {
 protected:
  RdmaDemoOutcomes() {
    fake_cuda::Configure("");
    fake_gaudi::Configure({.devices = 2});
    SetKernels(KernelHabit::kDouble);
  }
};

std::string SummaryIn(const std::string& output) {
  return output.substr(std::min(output.find("Summary of "), output.size()));
}

TEST_F(RdmaDemoOutcomes, AreSummedUpByBothSides) {
  const Both both = RunBoth(Of("gaudi"), Of("cuda"));
  EXPECT_TRUE(golden::MatchesFile("server.txt", SummaryIn(both.server.output)));
  EXPECT_TRUE(golden::MatchesFile("client.txt", SummaryIn(both.client.output)));
}

TEST_F(RdmaDemoOutcomes, TellOfAReadThatTheServerRefusesAndGoOn) {
  for (const char* const kind : {"host", "cuda", "gaudi"}) {
    Options server = Of(kind);
    server.serves_reads = false;
    const Both both = RunBoth(server, Of("host"));
    EXPECT_TRUE(both.well()) << both.output();
    EXPECT_TRUE(golden::MatchesFile("client_refused.txt", SummaryIn(both.client.output)));
    EXPECT_THAT(both.server.output,
                AllOf(HasSubstr("  RDMA read         unsupported: the client says: Cannot read 4096 bytes"),
                      HasSubstr("   the queue pairs are reset and connected anew\n"),
                      HasSubstr("  RDMA write        ok: wrote 4096 bytes, with a notification\n")));
  }
}

TEST_F(RdmaDemoOutcomes, NameTheIntegersThatAreWrong) {
  SetKernels(KernelHabit::kLeaveAsIs);
  const Both both = RunBoth(Of("cuda", 16), Of("host", 16));
  EXPECT_FALSE(both.server.well);
  EXPECT_FALSE(both.client.well);
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

TEST_F(RdmaDemoOutcomes, TellOfAKernelThatFailsAndGoOn) {
  SetKernels(KernelHabit::kFail);
  Options client = Of("host");
  client.patience = milliseconds(500);  // for an answer that never comes
  const Both both = RunBoth(Of("cuda"), client);
  EXPECT_THAT(both.server.output,
              AllOf(HasSubstr("  send/receive 1    failed: Cannot launch the kernel on cuda:0.\n"),
                    HasSubstr("Not all is well.\n")));
  EXPECT_THAT(both.client.output,
              HasSubstr("  send/receive 3    failed: Cannot receive a message: timeout: "));
  EXPECT_FALSE(both.server.well);
  EXPECT_FALSE(both.client.well);
}

TEST_F(RdmaDemoOutcomes, TellOfAKernelThatDoesNotEndWhenTheStepsTimeIsUp) {
  SetKernels(KernelHabit::kNeverEnd);
  Options server = Of("cuda"), client = Of("host");
  server.patience = client.patience = milliseconds(500);
  const Both both = RunBoth(server, client);
  EXPECT_THAT(
      both.server.output,
      HasSubstr("  send/receive 1    failed: Cannot run the kernel on cuda:0: it did not finish in "));
  EXPECT_THAT(both.client.output, HasSubstr("  send/receive 1    failed: "));
}

TEST_F(RdmaDemoOutcomes, TellThatTheSidesDoNotAgree) {
  const Both both = RunBoth(Of("host", 8), Of("host", 12));
  EXPECT_THAT(both.server.sentence,
              StartsWith("The two sides do not agree: messages have 8 bytes here and 12 there. Give both"));
  EXPECT_THAT(both.client.sentence,
              StartsWith("The two sides do not agree: messages have 12 bytes here and 8 there. Give both"));
  EXPECT_THAT(both.client.output, HasSubstr("  send/receive 1    not done\n"));
}

TEST_F(RdmaDemoOutcomes, TellThatNobodyCame) {
  Options brief = Of("host");
  brief.wait = milliseconds(100);
  brief.server = "127.0.0.1";
  const Ended server = EndOf([&](std::ostream& out) {
    return Serve(warpverbs::host::TcpListener({"127.0.0.1", 0}), brief, out);
  });
  EXPECT_THAT(server.sentence, HasSubstr("no peer connected within 0.1 s"));
  EXPECT_THAT(server.output, HasSubstr("  RDMA read         not done\n"));
  brief.port = warpverbs::host::TcpListener({"127.0.0.1", 0}).port();  // nobody's any more
  const Ended client = EndOf([&](std::ostream& out) { return Visit(brief, out); });
  EXPECT_THAT(client.sentence, StartsWith("Cannot connect to 127.0.0.1 port "));
}

/// A connection by one who speaks another language, or none.
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

TEST_F(RdmaDemoOutcomes, AreThoseOfTheClientThatComesAfterAStranger) {
  warpverbs::host::TcpListener listener({"127.0.0.1", 0});
  Options client = Of("host");
  client.server = "127.0.0.1";
  client.port = listener.port();
  const Stranger stranger(listener.port());  // is in the queue before the client
  Ended server;
  {
    const std::jthread serving([&] {
      server = EndOf([&](std::ostream& out) { return Serve(std::move(listener), Of("host"), out); });
    });
    EXPECT_TRUE(EndOf([&](std::ostream& out) { return Visit(client, out); }).well);
  }
  EXPECT_TRUE(server.well) << server.output;
  EXPECT_THAT(server.output,
              HasSubstr("   that was no client: Cannot swap introductions with 127.0.0.1 port "));
}

TEST_F(RdmaDemoOutcomes, AreTheSameWhereOnlyAStrangerComesAndSaysNothing) {
  Options brief = Of("host");
  brief.wait = milliseconds(300);
  warpverbs::host::TcpListener listener({"127.0.0.1", 0});
  const Stranger stranger(listener.port(), "");
  const auto limit = std::chrono::steady_clock::now() + brief.patience;
  const Ended server = EndOf([&](std::ostream& out) { return Serve(std::move(listener), brief, out); });
  EXPECT_LT(std::chrono::steady_clock::now(), limit);
  EXPECT_THAT(server.output, HasSubstr("   that was no client: Cannot swap introductions with 127.0.0.1"));
  EXPECT_THAT(server.sentence, HasSubstr("nobody but strangers came in time"));
}

TEST(RdmaDemoOptions, AreWhatTheHelpSaysWhereNothingIsGiven) {
  std::string program = "rdma_client", server = "there";
  char* words[] = {program.data(), server.data(), nullptr};
  Options options;
  EXPECT_EQ(ParseCommandLine(2, words, Role::kClient, options), std::nullopt);
  EXPECT_EQ(options.server, "there");
  EXPECT_EQ(options.port, 20000);
  EXPECT_EQ(options.bytes, uint64_t{4194304});
}

TEST(RdmaDemoKernel, DoublesWhateverComesOverTheWire) {
  constexpr int32_t kLeast = std::numeric_limits<int32_t>::min(), kMost = std::numeric_limits<int32_t>::max();
  const int32_t from[] = {1, -1, 1 << 30, kMost, kLeast};
  int32_t to[5] = {};
  for (uint64_t rank : {0, 1}) Double(rank, 2, DoubleJob{.from = from, .to = to, .count = 5});
  EXPECT_THAT(to, testing::ElementsAre(2, -2, kLeast, -2, 0));
}

TEST(RdmaDemoOutcome, CrossesAsALine) {
  for (const Outcome& outcome : {Outcome{Result::kOk, "sent 4"}, Outcome{Result::kUnsupported, "no: 0x13"},
                                 Outcome{Result::kFailed, ""}}) {
    const Outcome there = Outcome::FromText(outcome.ToText());
    EXPECT_EQ(there.result, outcome.result);
    EXPECT_EQ(there.text, outcome.text);
  }
  for (const char* line : {"", "OK", "okay then", " ok"}) {
    EXPECT_THROW(Outcome::FromText(line), std::runtime_error) << line;
  }
}

TEST(RdmaDemoOutcome, IsTheWorseOfBothInTheWordsOfWhoseItIs) {
  const Outcome fine{Result::kOk, "fine"}, refused{Result::kUnsupported, "no"},
      failed{Result::kFailed, "bad"};
  EXPECT_EQ(Agree(fine, fine, "the peer").text, "fine");
  EXPECT_EQ(Agree(fine, refused, "the peer").text, "the peer says: no");
  EXPECT_EQ(Agree(refused, failed, "the peer").text, "the peer says: bad");
  EXPECT_EQ(Agree(failed, refused, "the peer").text, "bad");
  EXPECT_EQ(Agree(fine, failed, "the peer").result, Result::kFailed);
}

TEST_F(RdmaDemoOutcomes, WordsOfAPeerDoNothingToATerminal) {
  const warpverbs::host::TcpListener listener({"127.0.0.1", 0});
  Options options = Of("host");
  options.server = "127.0.0.1";
  options.port = listener.port();
  const std::jthread stranger([&] {
    warpverbs::host::TcpExchange exchange = listener.Accept(warpverbs::host::DeadlineIn(options.wait));
    const std::string words = "\x1b[2Jhello\n";
    exchange.Swap({reinterpret_cast<const uint8_t*>(words.data()), words.size()}, "a greeting",
                  warpverbs::host::DeadlineIn(options.wait));
  });
  const Ended client = EndOf([&](std::ostream& out) { return Visit(options, out); });
  EXPECT_THAT(client.sentence, HasSubstr("Cannot understand the peer: it says '?[2Jhello?'. Run "));
}

}  // namespace
}  // namespace rdma_demo
