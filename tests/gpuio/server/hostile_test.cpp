#include <sys/resource.h>
#include <sys/socket.h>

#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <deque>
#include <random>

#include "gpuio/protocol/messages.hpp"
#include "gpuio/protocol/samples.hpp"
#include "gpuio/server/served.hpp"
#include "warpverbs/transport/rdma_transport.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

using namespace protocol;
using testing::HasSubstr;

/// A client that sends what it likes.
class Stranger {
 public:
  explicit Stranger(uint16_t port) : socket_(context_), transport_(0) {
    socket_.connect({asio::ip::address_v4::loopback(), port});
    // A server that does not answer fails the test, and does not hang it.
    const timeval longest{.tv_sec = kTestTimeout.count(), .tv_usec = 0};
    setsockopt(socket_.native_handle(), SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof(longest));
    bound_ = transport_.Bind();
  }

  void Send(const std::vector<uint8_t>& bytes) {
    std::error_code ignored;  // the server may have closed the connection
    asio::write(socket_, asio::buffer(bytes), ignored);
  }
  void Send(const std::string& text) { Send(std::vector<uint8_t>(text.begin(), text.end())); }

  /// Receives a frame; an empty body: the server has closed the connection.
  std::pair<FrameHeader, std::vector<uint8_t>> Receive() {
    std::array<uint8_t, FrameHeader::kBytes> header;
    std::error_code error;
    asio::read(socket_, asio::buffer(header), error);
    if (error) return {};
    const auto decoded = DecodeHeader(header).value();
    std::vector<uint8_t> body(decoded.bytes - FrameHeader::kBytes);
    asio::read(socket_, asio::buffer(body), error);
    if (error) return {};
    return {decoded, body};
  }
  /// Receives all that comes, and says whether the server closes the connection then.
  bool IsClosed() {
    std::error_code error;
    std::array<uint8_t, 4096> bytes;
    while (!error) socket_.read_some(asio::buffer(bytes), error);
    return error != asio::error::would_block && error != asio::error::try_again;
  }

  Hello Greeting() const { return {.key = 99, .url = bound_.url}; }

  /// Greets as a client does.
  void Connect() {
    Send(EncodeFrame(Greeting()));
    const auto welcome = DecodeWelcome(Receive().second);
    ASSERT_TRUE(welcome);
    ASSERT_EQ(welcome->refusal, "");
    ASSERT_TRUE(transport_.Connect(welcome->url).ok());
    ASSERT_TRUE(GetInTime(transport_.WaitForWrite()).ok());
  }

 private:
  asio::io_context context_;
  asio::ip::tcp::socket socket_;
  transport::RdmaTransport transport_;
  transport::Bound bound_;
};

class Hostile : public Served {
 protected:
  Hostile() {
    WriteFile(folder_ / "file", Pattern(10'000, 1));
    Serve();
    file_ = client_->MustOpen("file", O_RDONLY);
  }

  uint16_t port() const { return client_config_.servers[0].port; }

  /// @param connected  strangers that greeted as clients do
  void ExpectThatOthersAreServed(uint64_t connected = 0) {
    Memory memory(10'000);
    EXPECT_EQ(client().Read(file_, 0, memory.Remote()).result, 10'000);
    EXPECT_EQ(memory.bytes(), Pattern(10'000, 1));
    EXPECT_EQ(Statistics().clients, 1 + connected) << "the client did not have to connect again";
  }
  std::string WholeLog() {
    std::string all;
    for (const std::string& line : Log()) all += line + "\n";
    return all;
  }

  uint64_t file_ = 0;
};

TEST_F(Hostile, StrangersAreRefusedAndNamedInTheLog) {
  Stranger browser(port()), wrong(port()), impatient(port());
  browser.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(browser.IsClosed());
  wrong.Send(EncodeFrame(Hello{.magic = 1, .url = "a"}));
  EXPECT_TRUE(wrong.IsClosed());
  impatient.Send(EncodeFrame(1, SpaceRequest{}));
  EXPECT_TRUE(impatient.IsClosed());
  EXPECT_THAT(WholeLog(), HasSubstr("refused 127.0.0.1:"));
  EXPECT_EQ(Statistics().strangers, 3u);
  ExpectThatOthersAreServed();
}

TEST_F(Hostile, SilentStrangersLoseTheirConnection) {
  client_.reset();
  server_config_.greeting_timeout = std::chrono::milliseconds(50);
  Serve();
  Stranger silent(port());
  EXPECT_TRUE(silent.IsClosed());
}

TEST_F(Hostile, OtherVersionsAreToldWhy) {
  Stranger newer(port());
  Hello hello = newer.Greeting();
  hello.version = kVersion + 1;
  auto frame = EncodeFrame(hello);
  frame.push_back(7);  // a field that this release does not know
  ++frame[0];          // the size of the frame
  newer.Send(frame);
  const auto welcome = DecodeWelcome(newer.Receive().second);
  ASSERT_TRUE(welcome);
  EXPECT_THAT(welcome->refusal, HasSubstr("use the same release on both sides"));
  EXPECT_TRUE(newer.IsClosed());
}

TEST_F(Hostile, UrlsOfNoTransportAreRefused) {
  Stranger stranger(port());
  stranger.Send(EncodeFrame(Hello{.key = 1, .url = "nonsense"}));
  const auto welcome = DecodeWelcome(stranger.Receive().second);
  ASSERT_TRUE(welcome);
  EXPECT_NE(welcome->refusal, "");
  EXPECT_TRUE(stranger.IsClosed());
  ExpectThatOthersAreServed();
}

TEST_F(Hostile, InvalidRequestsAreAnsweredByEinval) {
  Stranger stranger(port());
  stranger.Connect();
  stranger.Send(EncodeFrame(7, OpenRequest{"../secret", kOpenRead, 0}));
  const auto [header, body] = stranger.Receive();
  EXPECT_EQ(header.id, 7u);
  EXPECT_EQ(DecodeReply(OpenRequest{}, body).value().error, EINVAL);
  stranger.Send(EncodeFrame(8, CloseRequest{12345}));
  EXPECT_EQ(DecodeReply(CloseRequest{}, stranger.Receive().second).value().error, EBADF) << "it goes on";
}

TEST_F(Hostile, HandlesBelongToTheirConnection) {
  Stranger stranger(port());
  stranger.Connect();
  for (uint64_t handle = 0; handle < 10; ++handle) {
    stranger.Send(EncodeFrame(handle, SyncRequest{handle, false}));
    EXPECT_EQ(DecodeReply(SyncRequest{}, stranger.Receive().second).value().error, EBADF) << handle;
  }
}

TEST_F(Hostile, RequestsUpToTheLimitAreAnswered) {
  const uint32_t limit = server_config_.max_requests;
  Stranger stranger(port());
  stranger.Connect();
  for (uint64_t id = 0; id < 5000 + limit; ++id) {
    if (id >= limit) {
      ASSERT_FALSE(stranger.Receive().second.empty());
    }
    if (id < 5000) stranger.Send(EncodeFrame(id, CloseRequest{12345}));
  }
  EXPECT_THAT(WholeLog(), testing::Not(HasSubstr("more requests than it may")));
}

TEST_F(Hostile, RequestsBeyondTheLimitEndTheConnection) {
  Stranger stranger(port());
  stranger.Connect();
  std::vector<uint8_t> flood;
  for (uint64_t id = 0; id < 3000; ++id) {
    const auto frame = EncodeFrame(id, ListRequest{"", 0});
    flood.insert(flood.end(), frame.begin(), frame.end());
  }
  stranger.Send(flood);
  EXPECT_TRUE(stranger.IsClosed());
  EXPECT_THAT(WholeLog(), HasSubstr("more requests than it may"));
  ExpectThatOthersAreServed(1);
}

TEST_F(Hostile, AnswersThatNobodyReadsAreBoundedByTheMemory) {
  client_.reset();
  for (int i = 0; i < 300; ++i) WriteFile(folder_ / (std::string(200, 'a') + std::to_string(i)), {});
  server_config_.memory = 4 << 20;
  server_config_.max_requests = 1000;
  Serve();
  file_ = client_->MustOpen("file", O_RDONLY);
  // The answers to one of them fit into what clients may leave unread, those to both far from it.
  std::deque<Stranger> strangers;
  for (int i = 0; i < 2; ++i) {
    strangers.emplace_back(port()).Connect();
    for (uint64_t id = 0; id < 1000; ++id) strangers.back().Send(EncodeFrame(id, ListRequest{"", 0}));
  }
  EXPECT_TRUE(Eventually([&] { return Statistics().clients_now == 2; }));
  size_t ended = 0;
  for (const std::string& line : Log()) ended += line.ends_with("does not read its answers") ? 1 : 0;
  EXPECT_EQ(ended, 1u);
  size_t answers = 0;
  for (Stranger& stranger : strangers) {
    size_t read = 0;
    while (read < 1000 && !stranger.Receive().second.empty()) ++read;
    answers = std::max(answers, read);
  }
  EXPECT_EQ(answers, 1000u) << "the one with fewer unread answers loses none";
  ExpectThatOthersAreServed(2);
}

TEST_F(Hostile, SilentStrangersTakeNoPlacesOfClients) {
  client_.reset();
  server_config_.max_clients = 2;
  Serve();
  asio::io_context context;
  std::vector<asio::ip::tcp::socket> silent;
  for (int i = 0; i < 10; ++i)
    silent.emplace_back(context).connect({asio::ip::address_v4::loopback(), port()});
  EXPECT_EQ(client().Open("file", O_RDONLY).first, 0);
  Client second(client_config_);
  EXPECT_EQ(second.Open("file", O_RDONLY).first, 0);
  EXPECT_EQ(Statistics().clients_now, 2u);
}

TEST_F(Hostile, AClientLeavesFilesToTheOthers) {
  client_.reset();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = std::min<rlim_t>(before.rlim_cur, 800);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  Serve();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  size_t files = 0;
  int error = 0;
  for (; error == 0 && files < 500; ++files) error = client().Open("file", O_RDONLY).first;
  EXPECT_EQ(error, EMFILE);
  EXPECT_LE(files, 101u) << "half of those that the limit of 800 descriptors leaves";
  Client second(client_config_);
  EXPECT_EQ(second.Open("file", O_RDONLY).first, 0);
}

TEST_F(Hostile, FilesBeyondTheLimitAreEmfile) {
  client_.reset();
  server_config_.max_files = 10;
  Serve();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(client().Open("file", O_RDONLY).first, 0);
  EXPECT_EQ(client().Open("file", O_RDONLY).first, EMFILE);
}

/// Sends requests of which some bytes are wrong, for a while: WARPVERBS_SOAK_SECONDS, or 2 s.
TEST_F(Hostile, MutatedRequestsHarmNobody) {
  const char* const seconds = std::getenv("WARPVERBS_SOAK_SECONDS");
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::seconds(seconds != nullptr ? std::atoi(seconds) : 1);
  const auto samples = SampleRequests();
  std::mt19937_64 random(1);
  size_t connections = 0;
  while (std::chrono::steady_clock::now() < end) {
    Stranger stranger(port());
    ++connections;
    if (random() % 4 != 0) stranger.Connect();
    for (int i = 0; i < 30; ++i) {
      auto frame = EncodeFrame(random() % 4, samples[random() % samples.size()]);
      for (uint64_t wrong = random() % 4; wrong != 0; --wrong) {
        const size_t at = random() % 3 == 0
                              ? random() % frame.size()
                              : FrameHeader::kBytes + random() % (frame.size() - FrameHeader::kBytes + 1);
        if (at < frame.size()) frame[at] = static_cast<uint8_t>(random());
      }
      stranger.Send(frame);
    }
  }
  ASSERT_TRUE(Eventually([&] { return Statistics().clients_now == 1; }));
  EXPECT_EQ(Statistics().buffers_used, 0u);
  RecordProperty("connections", static_cast<int>(connections));
  Memory memory(10'000);
  EXPECT_EQ(client().Read(file_, 0, memory.Remote()).result, 10'000) << "nobody else's file was changed";
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
