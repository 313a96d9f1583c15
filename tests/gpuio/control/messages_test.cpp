#include "gpuio/control/messages.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace warpverbs::inline v0_2::gpuio {
namespace {

const std::string kName = "00112233445566778899aabbccddeeff";

std::vector<ControlRequest> Samples() {
  PublishRequest publish{.name = kName + ".gdr.d1", .offset = 77};
  publish.memory.fill(0x5a);
  PublishRequest with_handle = publish;
  with_handle.ipc_handle.emplace().fill(0xa5);
  return {{.sequence = 1, .body = publish},
          {.sequence = 2, .body = with_handle},
          {.sequence = 3, .body = AttachRequest{kName + ".r-4.t20"}},
          {.sequence = 4, .body = DetachRequest{kName}},
          {.sequence = 5, .body = OpenFileRequest{.inode = ~uint64_t{0}, .path = "a/b c", .reads = true}},
          {.sequence = 6, .body = CloseFileRequest{.inode = 7, .writes = true}}};
}

TEST(ControlRequest, SurvivesItsBytes) {
  for (const ControlRequest& request : Samples()) {
    const std::vector<uint8_t> bytes = request.Encode();
    EXPECT_LE(bytes.size(), kMaxControlBytes);
    EXPECT_EQ(ControlRequest::Decode(bytes), request) << request.sequence;
  }
}

TEST(ControlRequest, RefusesOtherLengths) {
  for (const ControlRequest& request : Samples()) {
    std::vector<uint8_t> bytes = request.Encode();
    for (size_t length = 0; length < bytes.size(); ++length)
      EXPECT_EQ(ControlRequest::Decode(std::span(bytes).first(length)), std::nullopt) << length;
    bytes.push_back(0);
    EXPECT_EQ(ControlRequest::Decode(bytes), std::nullopt);
  }
}

TEST(ControlRequest, RefusesAnotherMagicVersionOrKind) {
  std::vector<uint8_t> bytes = Samples()[3].Encode();
  for (const size_t place : {size_t{0}, size_t{3}, size_t{4}, size_t{5}, size_t{7}}) {
    std::vector<uint8_t> changed = bytes;
    changed[place] ^= 0x40;
    EXPECT_EQ(ControlRequest::Decode(changed), std::nullopt) << place;
  }
  bytes[6] = 5;
  EXPECT_EQ(ControlRequest::Decode(bytes), std::nullopt);
}

TEST(ControlRequest, RefusesFieldsOutOfRange) {
  const auto is_refused = [](const decltype(ControlRequest::body)& body) {
    return !ControlRequest::Decode(ControlRequest{.sequence = 1, .body = body}.Encode()).has_value();
  };
  EXPECT_TRUE(is_refused(AttachRequest{"../" + kName}));
  EXPECT_TRUE(is_refused(AttachRequest{""}));
  EXPECT_TRUE(is_refused(DetachRequest{std::string(1000, 'a')}));
  EXPECT_TRUE(is_refused(PublishRequest{.name = "x"}));
  EXPECT_TRUE(is_refused(OpenFileRequest{.inode = 1, .path = "", .reads = true}));
  EXPECT_TRUE(is_refused(OpenFileRequest{.inode = 1, .path = "a"})) << "neither reads nor writes";
  EXPECT_TRUE(is_refused(OpenFileRequest{.inode = 1, .path = std::string(4096, 'a'), .reads = true}));
  EXPECT_TRUE(is_refused(OpenFileRequest{.inode = 1, .path = std::string("a\0b", 3), .reads = true}));
  EXPECT_TRUE(is_refused(CloseFileRequest{.inode = 1}));
}

TEST(ControlReply, SurvivesItsBytes) {
  const ControlReply reply{.sequence = 0xffffffff, .error = 95};
  const std::vector<uint8_t> bytes = reply.Encode();
  EXPECT_EQ(ControlReply::Decode(bytes), reply);
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_EQ(ControlReply::Decode(std::span(bytes).first(length)), std::nullopt);
  EXPECT_EQ(ControlReply::Decode(ControlReply{.sequence = 1, .error = 4096}.Encode()), std::nullopt);
  EXPECT_EQ(ControlReply::Decode(Samples()[3].Encode()), std::nullopt);
  EXPECT_EQ(ControlRequest::Decode(bytes), std::nullopt);
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
