#include <gmock/gmock.h>

#include <bit>
#include <ostream>
#include <regex>
#include <vector>

#include "runs.hpp"

/// Validation of data, and the report of changed data.
namespace {

TEST(Perf, ValidatesAllSizes) {
  ExpectSuccess(RunPerf("-a -n 7 --test send --perform_warm_up --data_validation"), 23);
}

/// The processor does not reach a Gaudi's memory, so the NIC copies it.
TEST(Perf, ValidatesMessagesOfAGaudi) {
  for (const char* const options : {"", "--test send -q 2 -b", "--test read -s 300000", "--test atomic"}) {
    const std::string line = std::string("-n 50 --use_hl=any --data_validation ") + options;
    const PerfPair pair = RunPerfPair(line, line, "", "", "LD_LIBRARY_PATH=" FAKE_GAUDI_FOLDER);
    ExpectSuccess(pair, 1);
    EXPECT_THAT(pair.client, testing::HasSubstr("memory of gaudi:"));
  }
}

/// A fault that flips a bit in transit.
struct FlippedBit {
  const char* options;
  uint64_t bytes;     // message size
  const char* fault;  // injected on the side that sends the data

  friend void PrintTo(const FlippedBit& bit, std::ostream* out) { *out << bit.options << " " << bit.fault; }
};

class PerfFlippedBit : public testing::TestWithParam<FlippedBit> {};

/// Returns the local QP numbers that a side printed.
std::vector<uint64_t> OwnQpns(const std::string& output) {
  const std::regex address(" local address: LID [0-9a-fx]+ QPN 0x([0-9a-f]+) ");
  std::vector<uint64_t> qpns;
  for (std::sregex_iterator found(output.begin(), output.end(), address); found != std::sregex_iterator();
       ++found)
    qpns.push_back(std::stoull((*found)[1], nullptr, 16));
  return qpns;
}

TEST_P(PerfFlippedBit, IsReportedOnBothSides) {
  const auto& [options, bytes, fault] = GetParam();
  const std::string line = "-n 100 --data_validation -s " + std::to_string(bytes) + " " + options;
  const bool reads = line.find("read") != std::string::npos;  // the server sends the data
  const std::string rule = std::string("--fault flip,") + fault;
  const PerfPair pair = RunPerfPair(line, line, reads ? rule : "", reads ? "" : rule);
  EXPECT_EQ(pair.client_status, 1) << pair.client;
  EXPECT_EQ(pair.server_status, 1) << pair.server;
  const std::regex sentence(
      "Data arrived changed: QP 0x([0-9a-f]+), chunk ([0-9]+), offset ([0-9]+), expected 0x([0-9a-f]{2}), "
      "actual 0x([0-9a-f]{2})\\.");  // and no "; N bytes in all"
  const std::string &finder = reads ? pair.client : pair.server, &sender = reads ? pair.server : pair.client;
  std::smatch found, told;
  ASSERT_TRUE(std::regex_search(finder, found, sentence)) << finder;
  ASSERT_TRUE(std::regex_search(sender, told, sentence)) << sender;
  EXPECT_EQ(found.str(), told.str());
  EXPECT_THAT(OwnQpns(finder), testing::Contains(std::stoull(found[1], nullptr, 16))) << finder;
  EXPECT_LT(std::stoull(found[2]), 100u);
  EXPECT_LT(std::stoull(found[3]), bytes);
  EXPECT_EQ(std::popcount(std::stoull(found[4], nullptr, 16) ^ std::stoull(found[5], nullptr, 16)), 1)
      << found.str();
}

// Atomics carry no payload: the final counts validate them.
INSTANTIATE_TEST_SUITE_P(, PerfFlippedBit,
                         testing::Values(FlippedBit{"", 65536, "op=WRITE_MIDDLE,nth=300"},
                                         FlippedBit{"-q 2", 8, "op=WRITE_ONLY,nth=150"},
                                         FlippedBit{"-b", 8, "op=WRITE_ONLY,nth=50"},
                                         FlippedBit{"-b -q 2 --test send", 3000, "op=SEND_ONLY,nth=50"},
                                         FlippedBit{"--test send", 65536, "op=SEND_LAST,nth=7"},
                                         FlippedBit{"--test read", 3000, "op=READ_RESP_ONLY,nth=60"}));

TEST(Perf, KeepsDataIntactDespiteLostAndCorruptedFrames) {
  const std::string options = "-n 100 -q 2 --data_validation";
  ExpectSuccess(RunPerfPair(options, options, "--fault drop:1%", "--fault drop:1% --fault corrupt:1%"), 1);
}

}  // namespace
