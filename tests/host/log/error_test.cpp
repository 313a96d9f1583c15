#include "warpverbs/host/error.hpp"

#include <gtest/gtest.h>

#include <cerrno>

#include "warpverbs/mlx5/commands.hpp"

namespace warpverbs::host {
namespace {

TEST(Error, NamesStepObjectErrnoAndRemedy) {
  const Error error = Error::FromErrno("open", "mlx5_0", EACCES, "Ask the administrator");
  EXPECT_STREQ(error.what(), "Cannot open mlx5_0: Permission denied (EACCES). Ask the administrator.");
  EXPECT_EQ(error.step(), "open");
  EXPECT_EQ(error.object(), "mlx5_0");
  EXPECT_EQ(error.error_number(), EACCES);
  EXPECT_EQ(error.syndrome(), 0);
  EXPECT_STREQ(error.About("port 2").what(),
               "Cannot open mlx5_0 port 2: Permission denied (EACCES). Ask the administrator.");
}

TEST(Error, DescribesUnnamedErrnoValues) {
  const Error error = Error::FromErrno("open", "mlx5_0", 4095, "Ask the administrator");
  EXPECT_STREQ(error.what(), "Cannot open mlx5_0: errno 4095. Ask the administrator.");
}

TEST(Error, DescribesTheFirmwaresAnswer) {
  mlx5::Mailbox<mlx5::kCommandOutBytes> answer;
  answer.Set(mlx5::command_out::kStatus, mlx5::CommandStatus::kLimitExceeded)
      .Set(mlx5::command_out::kSyndrome, 0xabcd12);
  const Error error = Error::FromCommand("create", "the queue pair on mlx5_0", EREMOTEIO, answer.data());
  EXPECT_STREQ(
      error.what(),
      "Cannot create the queue pair on mlx5_0: the firmware refused with status 0x8 (a device limit is "
      "exceeded), syndrome 0xabcd12. Use fewer or smaller queues, or close other programs that hold queues "
      "of this device.");
  EXPECT_EQ(error.syndrome(), 0xabcd12);
  EXPECT_EQ(error.error_number(), EREMOTEIO);
  const Error more = error.About("(port 1 is down)");
  EXPECT_EQ(more.object(), "the queue pair on mlx5_0 (port 1 is down)");
  EXPECT_EQ(more.syndrome(), 0xabcd12);
  EXPECT_EQ(more.error_number(), EREMOTEIO);
}

TEST(Error, FallsBackToErrnoWithoutAFirmwareAnswer) {
  const mlx5::Mailbox<mlx5::kCommandOutBytes> answer;
  const Error error = Error::FromCommand("create", "the queue pair on mlx5_0", EOPNOTSUPP, answer.data());
  EXPECT_NE(std::string(error.what()).find("Operation not supported (EOPNOTSUPP)"), std::string::npos);
  EXPECT_EQ(error.syndrome(), 0);
}

TEST(Error, AsksForMemoryWhereTheSystemHasNone) {
  const mlx5::Mailbox<mlx5::kCommandOutBytes> answer;
  const Error error = Error::FromCommand("create", "the queue pair on mlx5_0", ENOMEM, answer.data());
  EXPECT_STREQ(error.what(),
               "Cannot create the queue pair on mlx5_0: Cannot allocate memory (ENOMEM). Free memory, or raise "
               "the limits on it (ulimit -v, ulimit -l).");
}

}  // namespace
}  // namespace warpverbs::host
