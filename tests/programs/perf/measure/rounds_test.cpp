#include "perf/measure/rounds.hpp"

#include <gmock/gmock.h>

#include "../control/scripted_peer.hpp"

namespace warpverbs::perf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Returns the rounds of a server with room for 1000 messages whose client sends these answers.
std::vector<uint32_t> RoundsOfAServer(std::vector<std::string> answers) {
  ScriptedPeer peer(std::move(answers));
  ControlChannel control(peer, std::chrono::seconds(1));
  const Options server;
  std::vector<uint32_t> counts;
  Rounds(control, server, 4, 0, 1000).Run([&](uint32_t count, bool) { counts.push_back(count); });
  return counts;
}

constexpr char kEnd[] = R"({"count": 0, "counts": false})";

TEST(PerfRounds, RunsTheRoundsThatTheClientAnnounces) {
  EXPECT_THAT(
      RoundsOfAServer({R"({"count": 1000, "counts": true})", R"({"count": 4, "counts": false})", kEnd}),
      ElementsAre(1000, 4));
}

TEST(PerfRounds, RejectsARoundWithoutRoom) {
  for (const char* const count : {"1004", "1002", "1073741828", "18446744073709551615"}) {
    EXPECT_THAT(
        [&] {
          RoundsOfAServer({std::string(R"({"counts": true, "count": )") + count + "}", kEnd});
        },
        ThrowsMessage<std::runtime_error>(HasSubstr("The peer asks for an invalid round of ")))
        << count;
  }
}

TEST(PerfRounds, NamesTheInvalidFieldOfAnAnnouncement) {
  for (const char* const next :
       {"{}", R"({"count": "many", "counts": true})", R"({"count": [4], "counts": true})"}) {
    EXPECT_THAT(
        [&] {
          RoundsOfAServer({next, kEnd});
        },
        ThrowsMessage<std::runtime_error>(HasSubstr("The peer sent no valid 'count'")))
        << next;
  }
  EXPECT_THAT(
      [] {
        RoundsOfAServer({R"({"count": 4, "counts": "yes"})", kEnd});
      },
      ThrowsMessage<std::runtime_error>(HasSubstr("The peer sent no valid 'counts'")));
}

TEST(PerfRounds, LastATwentiethOfTheDurationButAtMostAMinute) {
  EXPECT_EQ(RoundSeconds(10), 0.5);
  EXPECT_EQ(RoundSeconds(1200), 60);
  EXPECT_EQ(RoundSeconds(86400), 60);
}

TEST(PerfRounds, LimitsTheRoundsOfAClientToWholeCalls) {
  ScriptedPeer peer({"{}"});
  ControlChannel control(peer, std::chrono::seconds(1));
  Options client;
  client.host = "server";
  client.iterations = kMaxRoundMessages;
  constexpr uint32_t kMultiple = 96;  // does not divide it
  std::vector<uint32_t> counts;
  Rounds(control, client, kMultiple, 0).Run([&](uint32_t count, bool) { counts.push_back(count); });
  EXPECT_THAT(counts, ElementsAre(kMaxRoundMessages / kMultiple * kMultiple, kMultiple));
}

}  // namespace
}  // namespace warpverbs::perf
