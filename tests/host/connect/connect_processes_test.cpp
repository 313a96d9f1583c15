// Endpoints of two processes, each with its own software HCA.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "common/repetitions.hpp"
#include "common/run_shell.hpp"

namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

/// Returns what both processes print, with their exit statuses.
///
/// @param after  last argument of the connector
std::string ConnectProcesses(const std::string& listener, const std::string& connector,
                             const std::string& after = "") {
  const std::string program = "timeout -s KILL 100 " SOFTHCA " -- " CONNECT_PEER " ";
  return RunShell("folder=$(mktemp -d); trap 'rm -r $folder' EXIT; mkfifo $folder/out\n" + program +
                  listener + " >$folder/out & exec 3<$folder/out; read -r line <&3; echo $line\n" + program +
                  connector + " ${line##* } " + after +
                  " | sed 's/^/connector: /'; cat <&3 | sed 's/^/listener: /'\n"
                  "wait $!; echo listener exits with $?")
      .output;
}

/// Returns the memory per endpoint that a side printed, if any.
std::optional<double> KibEach(const std::string& output, const std::string& side) {
  const std::string words = side + ": 1000 connected, ";
  const size_t place = output.find(words);
  if (place == std::string::npos) return std::nullopt;
  return std::stod(output.substr(place + words.size()));
}

TEST(ConnectProcesses, ConnectAThousandEndpointsInLessThan64KibEach) {
  const std::string output = ConnectProcesses("1000", "1000");
  EXPECT_THAT(output, HasSubstr("listener exits with 0"));
  for (const char* const side : {"listener", "connector"}) {
    const std::optional<double> kib = KibEach(output, side);
    ASSERT_TRUE(kib) << output;
    if (!warpverbs::tests::kSanitized) {  // a sanitizer adds shadow memory
      EXPECT_LT(*kib, 64) << side;
    }
    EXPECT_GT(*kib, 4) << "64 WQEBBs alone need as much";
  }
}

TEST(ConnectProcesses, BothReportADisagreement) {
  EXPECT_THAT(ConnectProcesses("2", "3"),
              AllOf(HasSubstr("connector: Cannot connect 3 endpoints to localhost port "),
                    ContainsRegex("listener: Cannot connect 2 endpoints to (127\\.0\\.0\\.1|::1) port "),
                    HasSubstr("listener exits with 1")));
}

TEST(ConnectProcesses, OneReportsThatTheOtherExited) {
  EXPECT_THAT(ConnectProcesses("1", "1", "leaves"),
              AllOf(HasSubstr("the peer closed the connection. "), HasSubstr("listener exits with 1")));
}

}  // namespace
