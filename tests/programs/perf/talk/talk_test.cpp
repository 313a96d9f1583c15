#include "perf/talk/talk.hpp"

#include <gmock/gmock.h>

#include "perf/party/party.hpp"
#include "perf/report/report.hpp"
#include "perf/talk/report_words.hpp"
#include "scripted_peer.hpp"

namespace warpverbs::perf {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(PerfTalk, FiguresOfAPeerInOtherWordsAreRefusedByTheFieldsName) {
  const auto lacks = [](const char* field) {
    return ThrowsMessage<std::runtime_error>(
        HasSubstr(std::string("The other side tells no '") + field + "'"));
  };
  Json bandwidth = ToJson(BandwidthFigures{.bytes = 8, .average = 5});
  EXPECT_EQ(BandwidthFrom(bandwidth).average, 5);
  bandwidth["average"] = "fast";
  EXPECT_THAT([&] { BandwidthFrom(bandwidth); }, lacks("average"));
  EXPECT_THAT([] { BandwidthFrom(Json::array()); }, lacks("bytes"));
  Json latency = ToJson(LatencyFigures{.bytes = 8, .p999 = 7});
  EXPECT_EQ(LatencyFrom(latency).p999, 7);
  latency.erase("p999");
  EXPECT_THAT([&] { LatencyFrom(latency); }, lacks("p999"));
}

TEST(PerfTalk, AddressesOfAPeerInOtherWordsAreRefusedByTheFieldsName) {
  const Json flow{{"qpn", 0x101},           {"psn", 7},     {"rkey", 9},    {"lid", 0},
                  {"gid", host::Gid{}.raw}, {"source", 64}, {"target", 128}};
  EXPECT_EQ(PeerFlowFrom(flow).target, 128u);
  for (const auto& [field, value] : flow.items()) {
    for (const Json& wrong : {Json("text"), Json(nullptr), Json::array({1, 2})}) {
      Json other = flow;
      other[field] = wrong;
      EXPECT_THAT([&] { PeerFlowFrom(other); },
                  ThrowsMessage<std::runtime_error>(HasSubstr("tells no '" + field + "'")));
    }
  }
  EXPECT_THAT([] { PeerFlowFrom(Json(5)); }, ThrowsMessage<std::runtime_error>(HasSubstr("tells no 'qpn'")));
}

TEST(PerfTalk, NumbersThatDoNotFitAreRefusedRatherThanNarrowed) {
  const auto refuses = [](const std::string& number, const auto& get) {
    EXPECT_THAT([&] { get(Json::parse("{\"n\": " + number + "}")); },
                ThrowsMessage<std::runtime_error>(
                    HasSubstr("The other side's 'n' is " + number + ", which cannot be: ")));
  };
  for (const char* const number : {"4294967296", "18446744073709551615", "-1", "2.5", "1e+300"})
    refuses(number, [](const Json& json) { Get<uint32_t>(json, "n"); });
  for (const char* const number : {"-1", "1e+300"})
    refuses(number, [](const Json& json) { Get<uint64_t>(json, "n"); });
  refuses("65536", [](const Json& json) { Get<uint16_t>(json, "n"); });
  refuses("[1,256]", [](const Json& json) { Get<std::array<uint8_t, 2>>(json, "n"); });
  EXPECT_EQ(Get<uint32_t>(Json{{"n", 4294967295}}, "n"), 4294967295);
  EXPECT_EQ(Get<uint64_t>(Json{{"n", ~uint64_t{0}}}, "n"), ~uint64_t{0});
  EXPECT_EQ(Get<double>(Json{{"n", 0.1}}, "n"), 0.1);
}

TEST(PerfTalk, ReasonOfAPeerIsPrintable) {
  ScriptedPeer peer({R"({"failed": "no \u001b[2Jmemory\u009b\n"})"});
  EXPECT_THAT([&] { Talk(peer, std::chrono::seconds(1)).Swap(Json::object(), "its options"); },
              ThrowsMessage<PeerFailed>(testing::StrEq("The other side failed: no ?[2Jmemory???")));
}

TEST(PerfTalk, TellsAReasonThatHadToBeCutWithinALetter) {
  ScriptedPeer peer({"{}"});
  Talk talk(peer, std::chrono::seconds(1));
  std::string why = "x";
  while (why.size() < 2000)
    why += "\u00e9";  // two bytes each: the cut, at an even one, is in the middle of it
  talk.Fail(why);
  ASSERT_EQ(peer.told().size(), 1u);
  const Json told = Json::parse(peer.told().front(), nullptr, false);
  ASSERT_TRUE(told.is_object());
  EXPECT_THAT(told.at("failed").get<std::string>(), testing::StartsWith("x\u00e9\u00e9"));
}

TEST(PerfTalk, ReportHasThePeersInitiatorThoughItsNameWasCutWithinALetter) {
  const Row row{.initiator = std::string("kernels\u00e9").substr(0, 8), .figures = BandwidthFigures{}};
  const Json report = Json::parse(Dumped(ToJson(Options{.sizes = {8}}, Setting{}, {row}), 2), nullptr, false);
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(report.at("results").at("initiator"), "kernels\ufffd");
}

}  // namespace
}  // namespace warpverbs::perf
