// Endpoints of two processes, each on a software HCA of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/run_shell.hpp"

namespace {

using testing::AllOf;
using testing::HasSubstr;

/// What both print, and their exit statuses.
///
/// @param after  a last argument of the connector
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

TEST(ConnectProcesses, ConnectAHundredEndpointsThatCarryData) {
  EXPECT_THAT(ConnectProcesses("100", "100"),
              AllOf(HasSubstr("connector: 100 connected"), HasSubstr("listener: 100 connected"),
                    HasSubstr("listener exits with 0")));
}

TEST(ConnectProcesses, BothSayThatTheyDoNotAgree) {
  EXPECT_THAT(ConnectProcesses("2", "3"),
              AllOf(HasSubstr("connector: Cannot connect 3 endpoints to localhost port "),
                    HasSubstr("listener: Cannot connect 2 endpoints to 127.0.0.1 port "),
                    HasSubstr("listener exits with 1")));
}

TEST(ConnectProcesses, OneSaysThatTheOtherEnded) {
  EXPECT_THAT(ConnectProcesses("1", "1", "leaves"),
              AllOf(HasSubstr("it left after no byte of its message"), HasSubstr("listener exits with 1")));
}

}  // namespace
