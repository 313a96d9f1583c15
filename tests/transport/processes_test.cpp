// Transports of two processes, each on a software HCA of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/run_shell.hpp"

namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kPeer = "timeout -s KILL 100 " SOFTHCA " --devx-events -- " TRANSPORT_PEER " ";

TEST(TransportProcesses, ExchangeUrlsByFile) {
  const std::string output = RunShell("folder=$(mktemp -d); trap 'rm -r $folder' EXIT\n" + kPeer +
                                      "file $folder first | sed 's/^/first: /' &\n" + kPeer +
                                      "file $folder second | sed 's/^/second: /'; wait")
                                 .output;
  EXPECT_THAT(output, AllOf(HasSubstr("first: moved"), HasSubstr("second: moved")));
}

TEST(TransportProcesses, ExchangeUrlsByTcp) {
  const std::string output =
      RunShell("folder=$(mktemp -d); trap 'rm -r $folder' EXIT; mkfifo $folder/out\n" + kPeer +
               "tcp >$folder/out & exec 3<$folder/out; read -r line <&3\n" + kPeer +
               "tcp ${line##* } | sed 's/^/connector: /'; cat <&3 | sed 's/^/listener: /'; wait")
          .output;
  EXPECT_THAT(output, AllOf(HasSubstr("connector: moved"), HasSubstr("listener: moved")));
}

}  // namespace
