#include "gpuio/protocol/framed_socket.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <asio/connect.hpp>
#include <asio/io_context.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace warpverbs::inline v0_2::gpuio::protocol {
namespace {

/// A framed socket, and a plain one at its other end.
class FramedSockets : public testing::Test {
 protected:
  FramedSockets() : plain_(context_) {
    asio::ip::tcp::acceptor acceptor(context_, {asio::ip::address_v4::loopback(), 0});
    plain_.connect(acceptor.local_endpoint());
    framed_ = std::make_shared<FramedSocket>(acceptor.accept());
    framed_->Start(
        [this](const FrameHeader& header, std::span<const uint8_t> body) {
          ids_.push_back(header.id);
          bodies_.emplace_back(body.begin(), body.end());
          if (header.id == close_at_) framed_->Close();
        },
        [this](const std::string& reason, bool by_peer) {
          end_ = reason;
          by_peer_ = by_peer;
        });
  }
  ~FramedSockets() override { framed_->Close(), context_.poll(); }

  /// Runs the loop until a condition holds.
  template <class Condition>
  void RunUntil(const Condition& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!condition()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      context_.restart();
      context_.run_one_for(std::chrono::milliseconds(100));
    }
  }

  asio::io_context context_;
  asio::ip::tcp::socket plain_;
  std::shared_ptr<FramedSocket> framed_;
  std::vector<uint64_t> ids_;
  std::vector<std::vector<uint8_t>> bodies_;
  std::string end_;
  bool by_peer_ = false;
  uint64_t close_at_ = 0;
};

TEST_F(FramedSockets, FindFramesHoweverTheyArrive) {
  std::vector<uint8_t> all;
  for (uint64_t id = 1; id <= 5; ++id) {
    const auto frame = EncodeFrame(id, GetAttributesRequest{0, std::string(id * 40, 'a')});
    all.insert(all.end(), frame.begin(), frame.end());
  }
  for (size_t i = 0; i < all.size(); i += 7) {
    asio::write(plain_, asio::buffer(all.data() + i, std::min<size_t>(7, all.size() - i)));
    context_.restart();
    context_.poll();
  }
  asio::write(plain_, asio::buffer(all));
  RunUntil([&] { return ids_.size() == 10; });
  EXPECT_THAT(ids_, testing::ElementsAre(1, 2, 3, 4, 5, 1, 2, 3, 4, 5));
  EXPECT_EQ(bodies_[4].size(), 8u + 4 + 200);
  EXPECT_EQ(end_, "");
}

TEST_F(FramedSockets, TakeTheLargestFrame) {
  std::vector<uint8_t> frame =
      EncodeReply(1, ReadLinkRequest::kType, 0, ReadLinkReply{std::string(65536 - 24, 'x')});
  ASSERT_EQ(frame.size(), kMaxFrameBytes);
  frame.insert(frame.end(), frame.begin(), frame.end());
  std::thread writer([&] { asio::write(plain_, asio::buffer(frame)); });
  RunUntil([&] { return ids_.size() == 2; });
  writer.join();
}

TEST_F(FramedSockets, EndAtWhatIsNoFrame) {
  asio::write(plain_, asio::buffer(std::string("GET / HTTP/1.1\r\n\r\n")));
  RunUntil([&] { return !end_.empty(); });
  EXPECT_EQ(end_, "the peer sent bytes that are not a frame");
  EXPECT_FALSE(by_peer_);
}

TEST_F(FramedSockets, SayThatThePeerHasGone) {
  plain_.close();
  RunUntil([&] { return !end_.empty(); });
  EXPECT_EQ(end_, "the peer closed it");
  EXPECT_TRUE(by_peer_);
}

TEST_F(FramedSockets, CallNothingAfterClose) {
  close_at_ = 2;
  std::vector<uint8_t> all;
  for (uint64_t id = 1; id <= 3; ++id) {
    const auto frame = EncodeFrame(id, SpaceRequest{});
    all.insert(all.end(), frame.begin(), frame.end());
  }
  asio::write(plain_, asio::buffer(all));
  RunUntil([&] { return ids_.size() == 2; });
  context_.restart();
  context_.run_for(std::chrono::milliseconds(20));
  EXPECT_THAT(ids_, testing::ElementsAre(1, 2));
  EXPECT_EQ(end_, "");
}

TEST_F(FramedSockets, SendAllBeforeTheyClose) {
  int sent = 0;
  const auto frame = EncodeReply(1, ReadLinkRequest::kType, 0, ReadLinkReply{std::string(60000, 'x')});
  for (int i = 0; i < 50; ++i) framed_->Send(frame, [&] { ++sent; });
  framed_->CloseAfterSending();
  framed_->Send(frame, [&] { ++sent; });
  std::string received;
  std::error_code error;
  std::vector<char> piece(1 << 16);
  std::thread reader([&] {
    while (!error) received.append(piece.data(), plain_.read_some(asio::buffer(piece), error));
  });
  RunUntil([&] { return sent == 50; });
  RunUntil([&] { return context_.poll() == 0; });
  reader.join();
  EXPECT_EQ(error, asio::error::eof);
  EXPECT_EQ(received.size(), 50 * frame.size());
  EXPECT_EQ(sent, 50);
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio::protocol
