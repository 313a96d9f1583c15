#include "perf/measure/rounds.hpp"

#include <gmock/gmock.h>

#include "../talk/scripted_peer.hpp"

namespace warpverbs::perf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// The rounds of a server that has room for 1000 messages, of a client that says this.
std::vector<uint32_t> RoundsOfAServer(std::vector<std::string> answers) {
  ScriptedPeer peer(std::move(answers));
  Talk talk(peer, std::chrono::seconds(1));
  const Options server;
  std::vector<uint32_t> counts;
  Rounds(talk, server, 4, 0, 1000).Run([&](uint32_t count, bool) { counts.push_back(count); });
  return counts;
}

constexpr char kEnd[] = R"({"count": 0, "counts": false})";

TEST(PerfRounds, ServerDoesThoseThatTheClientAsksFor) {
  EXPECT_THAT(
      RoundsOfAServer({R"({"count": 1000, "counts": true})", R"({"count": 4, "counts": false})", kEnd}),
      ElementsAre(1000, 4));
}

TEST(PerfRounds, ServerRefusesMoreThanItHasRoomFor) {
  for (const char* const count : {"1004", "1002", "1073741828", "18446744073709551615"}) {
    EXPECT_THAT(
        [&] {
          RoundsOfAServer({std::string(R"({"counts": true, "count": )") + count + "}", kEnd});
        },
        ThrowsMessage<std::runtime_error>(HasSubstr("which do not go")))
        << count;
  }
}

TEST(PerfRounds, ServerSaysWhatAClientInOtherWordsDoesNotTell) {
  for (const char* const next :
       {"{}", R"({"count": "many", "counts": true})", R"({"count": [4], "counts": true})"}) {
    EXPECT_THAT(
        [&] {
          RoundsOfAServer({next, kEnd});
        },
        ThrowsMessage<std::runtime_error>(HasSubstr("The other side tells no 'count'")))
        << next;
  }
  EXPECT_THAT(
      [] {
        RoundsOfAServer({R"({"count": 4, "counts": "yes"})", kEnd});
      },
      ThrowsMessage<std::runtime_error>(HasSubstr("The other side tells no 'counts'")));
}

TEST(PerfRounds, LastATwentiethOfTheTimeAndAMinuteAtMost) {
  EXPECT_EQ(SecondsOfARound(10), 0.5);
  EXPECT_EQ(SecondsOfARound(1200), 60);
  EXPECT_EQ(SecondsOfARound(86400), 60);
}

TEST(PerfRounds, ClientAsksForNoMoreThanAServerGrantsThoughCallsAreWhole) {
  ScriptedPeer peer({"{}"});
  Talk talk(peer, std::chrono::seconds(1));
  Options client;
  client.host = "server";
  client.iterations = kMostOfARound;
  constexpr uint32_t kGranule = 96;  // does not divide it
  std::vector<uint32_t> counts;
  Rounds(talk, client, kGranule, 0).Run([&](uint32_t count, bool) { counts.push_back(count); });
  EXPECT_THAT(counts, ElementsAre(kMostOfARound / kGranule * kGranule, kGranule));
}

}  // namespace
}  // namespace warpverbs::perf
