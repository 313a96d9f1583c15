#include "gpuio/protocol/messages.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <span>
#include <string>
#include <vector>

#include "gpuio/protocol/samples.hpp"

namespace warpverbs::inline v0_2::gpuio::protocol {
namespace {

using Bytes = std::vector<uint8_t>;

std::span<const uint8_t> BodyOf(const Bytes& frame) { return std::span(frame).subspan(FrameHeader::kBytes); }

std::optional<FrameHeader> HeaderOf(const Bytes& frame) {
  return DecodeHeader(std::span(frame).first<FrameHeader::kBytes>());
}

/// Encodes a request and decodes it as the server does.
std::optional<Request> Pass(const Request& request) {
  return DecodeRequest(TypeOf(request), BodyOf(EncodeFrame(1, request)));
}

TEST(Requests, SurviveTheirEncoding) {
  for (const Request& request : SampleRequests()) {
    const Bytes frame = EncodeFrame(42, request);
    const auto header = HeaderOf(frame);
    ASSERT_TRUE(header) << request.index();
    EXPECT_EQ(header->bytes, frame.size());
    EXPECT_EQ(header->type, TypeOf(request));
    EXPECT_EQ(header->id, 42u);
    const auto decoded = DecodeRequest(header->type, BodyOf(frame));
    ASSERT_TRUE(decoded) << request.index();
    EXPECT_EQ(EncodeFrame(42, *decoded), frame) << request.index();
  }
}

TEST(Requests, AreLittleEndianOnTheWire) {
  EXPECT_THAT(EncodeFrame(0x0102, CloseRequest{0x0304}),
              testing::ElementsAre(24, 0, 0, 0, 4, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0,  // header
                                   4, 3, 0, 0, 0, 0, 0, 0));
}

TEST(Requests, AreRefusedWithAByteMoreOrLess) {
  for (const Request& request : SampleRequests()) {
    const Bytes frame = EncodeFrame(1, request);
    const auto body = BodyOf(frame);
    for (size_t size = 0; size < body.size(); ++size)
      EXPECT_FALSE(DecodeRequest(TypeOf(request), body.first(size))) << request.index() << " of " << size;
    Bytes longer(body.begin(), body.end());
    longer.push_back(0);
    EXPECT_FALSE(DecodeRequest(TypeOf(request), longer)) << request.index();
  }
}

TEST(Requests, OfUnknownTypesAreRefused) {
  for (const uint16_t type : {0, 1, 2, 18, 0xffff}) EXPECT_FALSE(DecodeRequest(type, {})) << type;
}

TEST(Requests, RefusePathsThatLeaveTheFolder) {
  for (const std::string& path :
       {std::string(".."), std::string("../a"), std::string("a/.."), std::string("a/../b"),
        std::string("/etc"), std::string("a//b"), std::string("a/"), std::string("./a"),
        std::string("a\0b", 3), std::string(256, 'x'), std::string(5000, '/')}) {
    EXPECT_FALSE(Pass(OpenRequest{path, kOpenRead, 0})) << path;
    EXPECT_FALSE(Pass(GetAttributesRequest{0, path})) << path;
    EXPECT_FALSE(Pass(ChangeAttributesRequest{.path = path})) << path;
    EXPECT_FALSE(Pass(ListRequest{path, 0})) << path;
    EXPECT_FALSE(Pass(MakeDirectoryRequest{path, 0})) << path;
    EXPECT_FALSE(Pass(RemoveRequest{path, false})) << path;
    EXPECT_FALSE(Pass(RenameRequest{path, "b", 0})) << path;
    EXPECT_FALSE(Pass(RenameRequest{"b", path, 0})) << path;
    EXPECT_FALSE(Pass(HardLinkRequest{path, "b"})) << path;
    EXPECT_FALSE(Pass(HardLinkRequest{"b", path})) << path;
    EXPECT_FALSE(Pass(ReadLinkRequest{path})) << path;
  }
}

TEST(Requests, RefuseChangesOfTheRootItself) {
  EXPECT_FALSE(Pass(RemoveRequest{"", true}));
  EXPECT_FALSE(Pass(RenameRequest{"", "a", 0}));
  EXPECT_FALSE(Pass(MakeDirectoryRequest{"", 0}));
}

TEST(Requests, RefuseRangesThatOverflow) {
  const auto buffer = [](uint64_t address, uint64_t bytes) {
    return transport::RdmaRemoteBuffer{reinterpret_cast<void*>(address), {.nics = 1, .rkeys = {1}}, bytes};
  };
  EXPECT_TRUE(Pass(ReadRequest{1, kMaxOffset - 10, buffer(4096, 10)}));
  EXPECT_FALSE(Pass(ReadRequest{1, kMaxOffset - 10, buffer(4096, 11)}));
  EXPECT_FALSE(Pass(WriteRequest{1, UINT64_MAX, buffer(4096, 1)}));
  EXPECT_FALSE(Pass(ReadRequest{1, 0, buffer(UINT64_MAX - 10, 11)}));
  EXPECT_FALSE(Pass(ReadRequest{1, 0, buffer(4096, UINT64_MAX)}));
  EXPECT_FALSE(Pass(PunchHoleRequest{1, kMaxOffset, 1}));
  EXPECT_FALSE(Pass(PunchHoleRequest{1, 0, 0}));
}

TEST(Requests, RefuseKeysOfNoNicOrOfTooMany) {
  for (const uint8_t nics : {0, 9, 255}) {
    Bytes frame = EncodeFrame(1, ReadRequest{1, 0, {nullptr, {.nics = 8}, 1}});
    frame[FrameHeader::kBytes + 32] = nics;  // behind handle, offset, address and length
    EXPECT_FALSE(DecodeRequest(ReadRequest::kType, BodyOf(frame))) << int{nics};
  }
}

TEST(Requests, RefuseFlagsAndTimesThatDoNotExist) {
  EXPECT_FALSE(Pass(OpenRequest{"a", 128 | kOpenRead, 0}));
  EXPECT_FALSE(Pass(OpenRequest{"a", kOpenCreate, 0})) << "neither reads nor writes";
  EXPECT_FALSE(Pass(OpenRequest{"a", kOpenRead | kOpenTruncate, 0}));
  EXPECT_FALSE(Pass(OpenRequest{"a", kOpenRead, 0100000}));
  EXPECT_FALSE(Pass(RenameRequest{"a", "b", 3}));
  EXPECT_FALSE(Pass(RenameRequest{"a", "b", 4}));
  EXPECT_FALSE(
      Pass(ChangeAttributesRequest{.path = "a", .changes = {.accessed = timespec{0, 1'000'000'000}}}));
  EXPECT_FALSE(Pass(ChangeAttributesRequest{.path = "a", .changes = {.bytes = kMaxOffset + 1}}));
}

TEST(Headers, AreRefusedIfNoFrameHasThem) {
  const Bytes good = EncodeFrame(1, SpaceRequest{});
  ASSERT_TRUE(HeaderOf(good));
  Bytes bad = good;
  bad[0] = FrameHeader::kBytes - 1;
  EXPECT_FALSE(HeaderOf(bad)) << "shorter than a header";
  bad = good;
  bad[2] = 1, bad[0] = 1;
  EXPECT_FALSE(HeaderOf(bad)) << "65,537 bytes";
  bad = good;
  bad[6] = 1;
  EXPECT_FALSE(HeaderOf(bad)) << "reserved";
}

TEST(Replies, SurviveTheirEncoding) {
  const Request request = SampleRequests()[2];
  const ReadReply reply{1 << 20, {{0, 4096}, {8192, 4096}}};
  const Bytes frame = EncodeReply(3, ReadRequest::kType, 0, reply);
  const auto answer = DecodeReply(request, BodyOf(frame));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->error, 0);
  EXPECT_EQ(std::get<ReadReply>(answer->reply).bytes, reply.bytes);
  EXPECT_EQ(std::get<ReadReply>(answer->reply).holes, reply.holes);
}

TEST(Replies, HaveNothingBehindAnError) {
  for (const Request& request : SampleRequests()) {
    Bytes frame = EncodeReply(3, TypeOf(request), ENOENT, ReadReply{.bytes = 5});
    const auto answer = DecodeReply(request, BodyOf(frame));
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->error, ENOENT);
    frame.push_back(0);
    EXPECT_FALSE(DecodeReply(request, BodyOf(frame)));
  }
}

TEST(Replies, RefuseWhatTheirRequestCannotHave) {
  const Request read = SampleRequests()[2], write = SampleRequests()[3], open = SampleRequests()[0];
  const auto refused = [](const Request& request, const Reply& reply) {
    return !DecodeReply(request, BodyOf(EncodeReply(1, TypeOf(request), 0, reply)));
  };
  EXPECT_TRUE(refused(read, ReadReply{.bytes = (1 << 20) + 1})) << "more than was asked for";
  EXPECT_TRUE(refused(read, ReadReply{4096, {{0, 4097}}})) << "a hole behind the end";
  EXPECT_TRUE(refused(read, ReadReply{4096, {{UINT64_MAX, 2}}})) << "a hole that overflows";
  EXPECT_TRUE(refused(read, ReadReply{4096, {{1024, 512}, {0, 512}}})) << "holes out of order";
  Request sends = read;
  std::get<ReadRequest>(sends).holes = Holes::kSend;
  EXPECT_FALSE(refused(read, ReadReply{4096, {{0, 512}}}));
  EXPECT_TRUE(refused(sends, ReadReply{4096, {{0, 512}}})) << "a hole that was to be sent";
  EXPECT_TRUE(refused(write, WriteReply{(1 << 20) + 1}));
  EXPECT_TRUE(refused(open, OpenReply{}));
  for (const char* const name : {"", ".", "..", "a/b"})
    EXPECT_TRUE(refused(ListRequest{}, ListReply{.entries = {{.name = name}}})) << name;
}

TEST(Replies, BelieveNoCount) {
  Bytes body(4 + 8, 0);  // no error; the number of bytes
  body.insert(body.end(), {0xff, 0xff, 0xff, 0xff});
  body.resize(1000, 0);
  EXPECT_FALSE(DecodeReply(SampleRequests()[2], body));
}

TEST(Handshake, SurvivesItsEncoding) {
  const auto hello = DecodeHello(BodyOf(EncodeFrame(Hello{.key = 7, .url = "a url"})));
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->magic, kMagic);
  EXPECT_EQ(hello->key, 7u);
  EXPECT_EQ(hello->url, "a url");
  const auto welcome = DecodeWelcome(BodyOf(EncodeFrame(Welcome{.key = 7, .url = "b", .max_requests = 9})));
  ASSERT_TRUE(welcome);
  EXPECT_EQ(welcome->max_requests, 9u);
}

TEST(Handshake, OfOtherVersionsHasTheirCommonFields) {
  const auto with_another_field = [](auto greeting, uint32_t version) {
    greeting.version = version;
    Bytes frame = EncodeFrame(greeting);
    frame.push_back(7);
    return frame;
  };
  const Hello hello{.key = 7, .url = "a url"};
  const Welcome welcome{.key = 7, .refusal = "no", .url = "b"};
  EXPECT_FALSE(DecodeHello(BodyOf(with_another_field(hello, kVersion))));
  EXPECT_FALSE(DecodeWelcome(BodyOf(with_another_field(welcome, kVersion))));
  const auto other_hello = DecodeHello(BodyOf(with_another_field(hello, kVersion + 1)));
  ASSERT_TRUE(other_hello);
  EXPECT_EQ(other_hello->version, kVersion + 1);
  EXPECT_EQ(other_hello->key, 7u);
  const auto other_welcome = DecodeWelcome(BodyOf(with_another_field(welcome, kVersion + 1)));
  ASSERT_TRUE(other_welcome);
  EXPECT_EQ(other_welcome->refusal, "no");
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio::protocol
