#include <gtest/gtest.h>

#include <set>

#include "warpverbs/host/queue_error.hpp"
#include "warpverbs/mlx5/syndrome.hpp"
#include "warpverbs/mlx5/wqe.hpp"

namespace warpverbs::host {
namespace {

using device::Code;
using device::RequestError;

TEST(DescribeStatus, HasASentenceForEachCode) {
  EXPECT_EQ(Describe({.code = Code::kOk}), "ok");
  EXPECT_EQ(Describe({.code = Code::kPending}), "pending: not complete yet");
  EXPECT_EQ(Describe({.code = Code::kFull}), "full: no slot is free, and nothing was posted");
  EXPECT_EQ(Describe({.code = Code::kTimeout}), "timeout: the deadline passed");
  EXPECT_EQ(Describe({.code = Code::kAborted}), "aborted: the abort word was set");
  EXPECT_EQ(Describe({.code = static_cast<Code>(99)}), "unknown status");
}

TEST(DescribeStatus, NamesTheFailedOperationAndTheSyndrome) {
  EXPECT_EQ(
      Describe({.code = Code::kError,
                .syndrome = static_cast<uint8_t>(mlx5::Syndrome::kLocalProtection),
                .vendor_syndrome = 0x51,
                .opcode = static_cast<uint8_t>(mlx5::WqeOpcode::kRdmaRead),
                .wqe_index = 65535}),
      "error: the queue pair has failed: RDMA read at WQE index 65535: local protection error: the lkey does "
      "not cover the local buffer (syndrome 0x04, vendor syndrome 0x51)");
}

TEST(DescribeStatus, TellsAnAbandonedReservationFromANicError) {
  EXPECT_EQ(Describe({.code = Code::kError}),
            "error: the queue has failed: a poster gave up after it reserved a WQE");
}

TEST(DescribeStatus, HasASentenceForEachRequestError) {
  std::set<std::string> texts;
  constexpr auto kCount = static_cast<int>(RequestError::kSwappedKey) + 1;
  for (int mistake = 0; mistake < kCount; ++mistake) {
    const std::string text =
        Describe({.code = Code::kInvalid, .request_error = static_cast<RequestError>(mistake)});
    EXPECT_EQ(text.find("invalid, and nothing was posted: "), 0) << text;
    EXPECT_EQ(text.find("unknown error"), std::string::npos) << mistake;
    texts.insert(text);
  }
  EXPECT_EQ(texts.size(), kCount);
  EXPECT_NE(Describe({.code = Code::kInvalid, .request_error = static_cast<RequestError>(kCount)})
                .find("unknown error"),
            std::string::npos);
}

TEST(OperationName, NamesEveryOpcodeDifferently) {
  std::set<std::string> names;
  for (const uint8_t opcode :
       {0x00, 0x01, 0x08, 0x09, 0x0a, 0x0b, 0x0f, 0x10, 0x11, 0x12, 0x14, 0x15, 0x1b, 0x23, 0x25}) {
    names.insert(OperationName(opcode));
  }
  EXPECT_EQ(names.size(), 15);
  EXPECT_EQ(names.count("unknown operation"), 0);
  EXPECT_STREQ(OperationName(0x7f), "unknown operation");
}

}  // namespace
}  // namespace warpverbs::host
