#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "common/fork_while_in_use.hpp"
#include "core/connected_pair.hpp"
#include "observe/log.hpp"
#include "observe/observer_list.hpp"
#include "observe/stats.hpp"
#include "observe/trace.hpp"
#include "wire/packet.hpp"

namespace softhca {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

/// Two observed queue pairs of one device, and the files that observers write.
class ObserverTest : public ConnectedPair {
 protected:
  ObserverTest() { std::filesystem::create_directory(folder); }
  ~ObserverTest() override { std::filesystem::remove_all(folder); }

  std::string Path(const std::string& name) const { return folder / name; }
  std::string Read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(Path(name)).rdbuf();
    return text.str();
  }
  void Observe(Observer& observer) { hca.SetObserver(&observer); }
  void End(Observer& observer) { observer.OnEnd({}); }

  Cqe Write(uint32_t bytes) {
    return Complete(a, WqeBuilder(mlx5::WqeOpcode::kRdmaWrite)
                           .Remote(remote.Address(), remote.key)
                           .Data(local.Address(), bytes, local.key));
  }
  void Packet(Observer& observer, Direction direction, PacketOp op, uint32_t psn, uint8_t syndrome = 0x1f) {
    softhca::Packet packet{.op = op, .psn = psn};
    packet.ack.syndrome = syndrome;
    observer.OnPacket(a.qp(), direction, packet, HasPayload(packet) ? 1024 : 0);
  }

  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("observers_test." + std::to_string(getpid()));
};

TEST_F(ObserverTest, LogFollowsItsLevel) {
  for (const auto& [level, states, entries] : {std::tuple{"warning", false, false},
                                               {"info", true, false},
                                               {"debug", true, false},
                                               {"trace", true, true}}) {
    Log log(ParseLog(level + ("," + Path("log"))));
    Observe(log);
    Connect();
    Write(8);
    const std::string text = Read("log");
    EXPECT_EQ(text.find("goes from INIT to RTR, peer 0x") != std::string::npos, states) << level << text;
    EXPECT_EQ(text.find("entry 0 is done") != std::string::npos, entries) << level << text;
    a.Reset();
    b.Reset();
  }
}

TEST_F(ObserverTest, LogWarnsOfFailuresDropsAndRefusals) {
  Log log({LogLevel::kWarning, Path("log")});
  Observe(log);
  Connect();
  remote.key ^= 0x1000;
  Write(8);
  log.OnDrop("wrong ICRC", 1);
  log.OnDrop("the receiver's queue is full", 12);
  log.OnLostEvent();
  log.OnLostEvent();
  log.OnRefusal(hca, "CREATE_CQ", "EINVAL", "too deep");
  const std::string text = Read("log");
  EXPECT_THAT(text, HasSubstr("softhca warning: " + hca.config().name + " QP 0x101 entry 0 fails: remote"));
  EXPECT_THAT(text, HasSubstr("frame dropped: wrong ICRC\n"));
  EXPECT_THAT(text, HasSubstr("12 frames dropped: the receiver's queue is full\n"));
  const size_t lost = text.find("event lost: the program leaves thousands unread\n");
  EXPECT_NE(lost, std::string::npos);
  EXPECT_EQ(text.find("event lost", lost + 1), std::string::npos) << "once";
  EXPECT_THAT(text, HasSubstr("CREATE_CQ refused (EINVAL): too deep\n"));
}

TEST_F(ObserverTest, LogShowsOnlyNegativeAcknowledgementsAtDebugLevel) {
  Log log({LogLevel::kDebug, Path("log")});
  Packet(log, Direction::kReceived, PacketOp::kAcknowledge, 7);
  Packet(log, Direction::kReceived, PacketOp::kAcknowledge, 8, 0x60);
  log.OnTimeout(a.qp());
  log.OnStalledPeer(a.qp());
  const std::string text = Read("log");
  EXPECT_THAT(text, HasSubstr("receives ACK, PSN 8, 0 bytes, syndrome 0x60\n"));
  EXPECT_THAT(text, Not(HasSubstr("PSN 7")));
  EXPECT_THAT(text, HasSubstr("gets no acknowledgement in time and retries"));
  EXPECT_THAT(text, HasSubstr("gets no acknowledgement in time and waits on"));
}

TEST(ParseLog, RefusesUnknownLevels) {
  EXPECT_THROW(ParseLog("loud"), std::invalid_argument);
  EXPECT_THROW(ParseLog(""), std::invalid_argument);
  EXPECT_THROW(ParseLog("info,"), std::invalid_argument);
  EXPECT_EQ(ParseLog("debug,a,b").file, "a,b");
}

TEST_F(ObserverTest, StatsCountRequestsAndMessagesWithoutPackets) {
  Stats stats(Path("stats"));
  Observe(stats);
  Connect();
  Write(100);
  Write(28);
  remote.key ^= 0x1000;
  Write(8);
  End(stats);
  const json qps = json::parse(Read("stats")).at("qps");
  ASSERT_EQ(qps.size(), 2u);
  EXPECT_EQ(qps[0].at("service"), "RC");
  EXPECT_EQ(qps[0].at("requests"), 2);
  EXPECT_EQ(qps[0].at("request_bytes"), 128);
  EXPECT_EQ(qps[0].at("failed"), 1);
  EXPECT_EQ(qps[1].at("messages"), 2);
  EXPECT_EQ(qps[1].at("message_bytes"), 128);
}

TEST_F(ObserverTest, StatsCountCompletionsAndOpenRequests) {
  Stats stats(Path("stats"));
  Observe(stats);
  Connect();
  const auto post = [this](uint8_t flags) {
    a.Post(WqeBuilder(mlx5::WqeOpcode::kRdmaWrite)
               .Remote(remote.Address(), remote.key)
               .Data(local.Address(), 8, local.key)
               .Flags(flags));
  };
  post(0);
  post(0);
  post(mlx5::kCqeAlways);
  Run();
  post(0);
  post(mlx5::kCqeAlways);
  Run();
  End(stats);
  const json qp = json::parse(Read("stats")).at("qps").at(0);
  EXPECT_EQ(qp.at("requests"), 5);
  EXPECT_EQ(qp.at("completions"), 2);
  EXPECT_EQ(qp.at("most_open"), 3);
}

TEST_F(ObserverTest, StatsDistinguishRetransmissionsDuplicatesAndNaks) {
  Stats stats(Path("stats"));
  Connect({.receive_psn = 0xffffff, .send_psn = 0xfffffe});
  for (const uint32_t psn : {0xfffffeu, 0xffffffu, 0u, 0xffffffu, 0u, 1u}) {
    Packet(stats, Direction::kSent, PacketOp::kWriteMiddle, psn);
  }
  for (const uint32_t psn :
       {0xfffffeu, 0xffffffu, 0u, 0xffffffu}) {  // behind, expected, ahead, expected again
    Packet(stats, Direction::kReceived, PacketOp::kSendOnly, psn);
  }
  const std::vector<uint8_t> payload(1024);
  stats.OnExecuted(a.qp(), {.op = PacketOp::kSendOnly, .psn = 0xffffff, .payload = payload});
  Packet(stats, Direction::kReceived, PacketOp::kAcknowledge, 0, 0x60);
  Packet(stats, Direction::kSent, PacketOp::kAcknowledge, 0, 0x62);
  Packet(stats, Direction::kReceived, PacketOp::kAcknowledge, 0, 0x2c);
  stats.OnTimeout(a.qp());
  stats.OnDrop("wrong ICRC", 1);
  stats.OnDrop("the receiver's queue is full", 7);
  stats.OnLostEvent();
  stats.OnLostEvent();
  End(stats);
  const json all = json::parse(Read("stats"));
  const json& qp = all.at("qps").at(0);
  EXPECT_EQ(qp.at("packets_sent"), 7);
  EXPECT_EQ(qp.at("sent_again"), 2);
  EXPECT_EQ(qp.at("packets_received"), 6);
  EXPECT_EQ(qp.at("duplicates"), 1);
  EXPECT_EQ(qp.at("out_of_order"), 1);
  EXPECT_EQ(qp.at("messages"), 1);
  EXPECT_EQ(qp.at("message_bytes"), 1024);
  EXPECT_EQ(qp.at("naks_received"), 1);
  EXPECT_EQ(qp.at("naks_sent"), 1);
  EXPECT_EQ(qp.at("rnr_naks_received"), 1);
  EXPECT_EQ(qp.at("timeouts"), 1);
  EXPECT_EQ(qp.at("sent_by_kind").at("WRITE_MIDDLE"), 6);
  EXPECT_EQ(all.at("drops").at("wrong ICRC"), 1);
  EXPECT_EQ(all.at("drops").at("the receiver's queue is full"), 7);
  EXPECT_EQ(all.at("lost_events"), 2);
}

TEST_F(ObserverTest, StatsPrintAnAlignedTable) {
  Stats stats("");
  Observe(stats);
  Connect();
  Write(100'000 % 16384);
  testing::internal::CaptureStderr();
  End(stats);
  std::istringstream lines(testing::internal::GetCapturedStderr());
  std::set<size_t> lengths;
  for (std::string line; std::getline(lines, line);) lengths.insert(line.size());
  EXPECT_EQ(lengths.size(), 1u) << "the heading and all rows are equally long";
}

TEST_F(ObserverTest, TraceJoinsDoorbellFetchAndCompletionOfEachRequest) {
  Trace trace(Path("trace"));
  Observe(trace);
  Connect();
  for (int i = 0; i < 40; ++i) {  // more than the queue has slots
    const WqeBuilder write = WqeBuilder(mlx5::WqeOpcode::kRdmaWrite)
                                 .Remote(remote.Address(), remote.key)
                                 .Data(local.Address(), 64, local.key);
    for (int j = 0; j < 2; ++j) a.Post(write);
    trace.OnDoorbell(a.qp());
    Run();
    while (a.send_cq.Poll()) {
    }
  }
  End(trace);
  std::map<std::string, std::map<std::string, double>> flows;
  std::set<double> doorbells;
  for (const json& event : json::parse(Read("trace"))) {
    const std::string phase = event.at("ph");
    if (event.at("name") == "doorbell") doorbells.insert(event.at("ts").get<double>());
    if (phase == "s" || phase == "t" || phase == "f") flows[event.at("id")][phase] = event.at("ts");
  }
  EXPECT_EQ(doorbells.size(), 40u);
  ASSERT_EQ(flows.size(), 80u);
  for (const auto& [id, phases] : flows) {
    ASSERT_EQ(phases.size(), 3u) << id;
    EXPECT_TRUE(doorbells.contains(phases.at("s"))) << id;
    EXPECT_LT(phases.at("s"), phases.at("t"));
    EXPECT_LT(phases.at("t"), phases.at("f"));
  }
}

TEST_F(ObserverTest, TraceThatWasCutOffLacksOnlyItsBracket) {
  Trace trace(Path("trace"));
  Observe(trace);
  Connect();
  for (int i = 0; i < 2000; ++i) Write(8);
  const std::string text = Read("trace");  // as a crash would leave it
  ASSERT_GT(text.size(), 100'000u);
  EXPECT_TRUE(text.ends_with("}"));
  EXPECT_GT(json::parse(text + "]").size(), 1000u);
}

TEST_F(ObserverTest, TraceHasATrackForEachQueuePairAndItsPackets) {
  Trace trace(Path("trace"));
  Observe(trace);
  Connect();
  Packet(trace, Direction::kSent, PacketOp::kWriteMiddle, 7);
  hca.SetLink(1, false);
  End(trace);
  std::set<std::string> tracks, instants;
  for (const json& event : json::parse(Read("trace"))) {
    if (event.at("name") == "thread_name") tracks.insert(event.at("args").at("name"));
    if (event.at("ph") == "i") instants.insert(event.at("name"));
    if (event.at("name") != "sent WRITE_MIDDLE") continue;
    EXPECT_EQ(event.at("args").at("psn"), 7);
  }
  const std::string device = hca.config().name;
  EXPECT_THAT(tracks, testing::ElementsAre(device + " QP 0x101 RC", device + " QP 0x102 RC"));
  EXPECT_TRUE(instants.contains("sent WRITE_MIDDLE"));
  EXPECT_TRUE(instants.contains("RTS"));
  EXPECT_TRUE(instants.contains(device + " port 1 down"));
}

TEST_F(ObserverTest, SeveralObserversSeeTheSameEvents) {
  ObserverList both;
  both.Add(std::make_unique<Log>(LogSettings{LogLevel::kInfo, Path("log")}));
  both.Add(std::make_unique<Trace>(Path("trace")));
  EXPECT_FALSE(both.empty());
  Observe(both);
  Connect();
  End(both);
  EXPECT_THAT(Read("log"), HasSubstr("to RTS"));
  EXPECT_THAT(Read("trace"), HasSubstr("RTS"));
}

/// Some forks happen while another thread is in the log.
TEST_F(ObserverTest, LogWorksInAForkedChild) {
  Log log({LogLevel::kWarning, "/dev/null"});
  warpverbs::tests::ForkWhileInUse([&] { log.OnDrop("wrong ICRC", 1); },
                                   [&] {
                                     Log({LogLevel::kWarning, Path("child")}).OnDrop("wrong ICRC", 1);
                                   });
  if (IsSkipped()) return;
  EXPECT_THAT(Read("child"), testing::EndsWith("frame dropped: wrong ICRC\n"));
}

/// A named pipe whose reader reads only when the test does.
class Pipe {
 public:
  explicit Pipe(const std::string& name) {
    EXPECT_EQ(mkfifo(name.c_str(), 0600), 0);
    descriptor_ = open(name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  }
  ~Pipe() { close(descriptor_); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  std::string Read() const {
    std::string text(1 << 20, '\0');
    const ssize_t bytes = read(descriptor_, text.data(), text.size());
    text.resize(static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
    return text;
  }

 private:
  int descriptor_;
};

TEST_F(ObserverTest, LogDropsWholeLinesThatNobodyReadsAndCountsThem) {
  const Pipe pipe(Path("log"));
  testing::internal::CaptureStderr();
  std::string text;
  {
    Log log({LogLevel::kWarning, Path("log")});
    for (int i = 0; i < 2000; ++i) log.OnDrop("wrong ICRC", 1);
    text = pipe.Read();
    log.OnDrop("malformed frame", 1);
    text += pipe.Read();
    for (int i = 0; i < 2000; ++i) log.OnDrop("wrong ICRC", 1);
    text += pipe.Read();
    log.OnEnd({});
    text += pipe.Read();
  }
  const std::string report = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("the reader was too slow; lines missing here: "));
  EXPECT_THAT(text, HasSubstr("frame dropped: malformed frame\n"));
  std::istringstream lines(text);
  size_t dropped = 0;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_THAT(line, testing::AnyOf(testing::EndsWith("wrong ICRC"), testing::EndsWith("malformed frame"),
                                     HasSubstr("lines missing here: ")));
    if (line.ends_with("wrong ICRC")) ++dropped;
  }
  EXPECT_THAT(report, HasSubstr(Path("log") + " lacks " + std::to_string(4000 - dropped) + " of 4001 lines"));
}

TEST_F(ObserverTest, TraceThatNobodyReadsEndsAndSaysWhatIsLost) {
  ASSERT_EQ(mkfifo(Path("trace").c_str(), 0600), 0);
  testing::internal::CaptureStderr();
  {
    Trace trace(Path("trace"));
    for (int i = 0; i < 5000; ++i) trace.OnDrop("wrong ICRC", 1);
    End(trace);
  }
  const std::string report = testing::internal::GetCapturedStderr();
  EXPECT_THAT(report, HasSubstr(" events: its reader was too slow\n"));
  EXPECT_THAT(report, HasSubstr("has no reader: its last "));
}

TEST_F(ObserverTest, NamesAFileThatCannotBeWritten) {
  try {
    Trace trace("/no/such/folder/trace");
    FAIL() << "the file was opened";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("/no/such/folder/trace"));
  }
}

}  // namespace
}  // namespace softhca
