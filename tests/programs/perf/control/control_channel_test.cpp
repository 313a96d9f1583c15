#include "perf/control/control_channel.hpp"

#include <gmock/gmock.h>

#include "perf/control/figures.hpp"
#include "perf/report/report.hpp"
#include "perf/side/side.hpp"
#include "scripted_peer.hpp"

namespace warpverbs::perf {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(ControlChannel, RejectsMalformedFiguresByFieldName) {
  const auto lacks = [](const char* field) {
    return ThrowsMessage<std::runtime_error>(
        HasSubstr(std::string("The peer sent no valid '") + field + "'"));
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

TEST(ControlChannel, RejectsMalformedAddressesByFieldName) {
  const Json flow{{"qpn", 0x101},           {"psn", 7},     {"rkey", 9},    {"lid", 0},
                  {"gid", host::Gid{}.raw}, {"source", 64}, {"target", 128}};
  EXPECT_EQ(ParseFlowAddress(flow).target, 128u);
  for (const auto& [field, value] : flow.items()) {
    for (const Json& wrong : {Json("text"), Json(nullptr), Json::array({1, 2})}) {
      Json other = flow;
      other[field] = wrong;
      EXPECT_THAT([&] { ParseFlowAddress(other); },
                  ThrowsMessage<std::runtime_error>(HasSubstr("sent no valid '" + field + "'")));
    }
  }
  EXPECT_THAT([] { ParseFlowAddress(Json(5)); },
              ThrowsMessage<std::runtime_error>(HasSubstr("sent no valid 'qpn'")));
}

TEST(ControlChannel, RejectsNumbersThatDoNotFit) {
  const auto rejects = [](const std::string& number, const auto& get) {
    EXPECT_THAT(
        [&] { get(Json::parse("{\"n\": " + number + "}")); },
        ThrowsMessage<std::runtime_error>(HasSubstr("The peer sent an invalid 'n': " + number + ". ")));
  };
  for (const char* const number : {"4294967296", "18446744073709551615", "-1", "2.5", "1e+300"})
    rejects(number, [](const Json& json) { Get<uint32_t>(json, "n"); });
  for (const char* const number : {"-1", "1e+300"})
    rejects(number, [](const Json& json) { Get<uint64_t>(json, "n"); });
  rejects("65536", [](const Json& json) { Get<uint16_t>(json, "n"); });
  rejects("[1,256]", [](const Json& json) { Get<std::array<uint8_t, 2>>(json, "n"); });
  EXPECT_EQ(Get<uint32_t>(Json{{"n", 4294967295}}, "n"), 4294967295);
  EXPECT_EQ(Get<uint64_t>(Json{{"n", ~uint64_t{0}}}, "n"), ~uint64_t{0});
  EXPECT_EQ(Get<double>(Json{{"n", 0.1}}, "n"), 0.1);
}

TEST(ControlChannel, PrintsAPeersReasonWithoutControlCharacters) {
  ScriptedPeer peer({R"({"failed": "no \u001b[2Jmemory\u009b\n"})"});
  EXPECT_THAT([&] { ControlChannel(peer, std::chrono::seconds(1)).Swap(Json::object(), "its options"); },
              ThrowsMessage<PeerFailed>(testing::StrEq("The peer failed: no ?[2Jmemory???")));
}

TEST(ControlChannel, RejectsMessagesThatAreTooLongOrTooDeep) {
  const auto rejects = [](const std::string& message) {
    ScriptedPeer peer({message});
    EXPECT_THAT([&] { ControlChannel(peer, std::chrono::seconds(1)).Swap(Json::object(), "its options"); },
                ThrowsMessage<std::runtime_error>(HasSubstr(" is not warpverbs-perf of this version.")));
  };
  const std::string long_text(1 << 20, 'x');
  rejects("{\"a\": \"" + long_text + "\"}");
  rejects(std::string(1 << 20, '['));
  rejects("{\"a\": " + std::string(17, '[') + std::string(17, ']') + "}");
  ScriptedPeer peer({"{\"a\": [[1]], \"b\": \"" + std::string(1000, 'x') + "\"}"});
  EXPECT_EQ(ControlChannel(peer, std::chrono::seconds(1)).Swap(Json::object(), "its options").size(), 2u);
}

TEST(ControlChannel, SendsAReasonThatIsCutWithinALetter) {
  ScriptedPeer peer({"{}"});
  ControlChannel control(peer, std::chrono::seconds(1));
  std::string why = "x";
  while (why.size() < 2000) why += "\u00e9";  // two bytes each: a cut at an even offset falls within one
  control.Fail(why);
  ASSERT_EQ(peer.received().size(), 1u);
  const Json received = Json::parse(peer.received().front(), nullptr, false);
  ASSERT_TRUE(received.is_object());
  EXPECT_THAT(received.at("failed").get<std::string>(), testing::StartsWith("x\u00e9\u00e9"));
}

TEST(ControlChannel, SerializesANameThatIsCutWithinALetter) {
  const Row row{.initiator = std::string("kernels\u00e9").substr(0, 8), .figures = BandwidthFigures{}};
  const Json report =
      Json::parse(Serialize(ToJson(Options{.sizes = {8}}, ReportContext{}, {row}), 2), nullptr, false);
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(report.at("results").at("initiator"), "kernels\ufffd");
}

}  // namespace
}  // namespace warpverbs::perf
