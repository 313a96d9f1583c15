#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <thread>

#include "gpuio/protocol/messages.hpp"
#include "gpuio/server/held_disk.hpp"
#include "gpuio/server/served.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/transport/rdma_transport.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

namespace fs = std::filesystem;

/// A server that greets its clients, and answers none of their requests.
class SilentServer {
 public:
  /// @param closes  whether it closes a connection after the first request
  explicit SilentServer(bool closes)
      : closes_(closes),
        acceptor_(context_, {asio::ip::address_v4::loopback(), 0}),
        memory_(64),
        registration_(memory_.data(), memory_.size(), 0),
        thread_([this] { Run(); }) {}
  ~SilentServer() {
    stopped_ = true;
    asio::ip::tcp::socket(context_).connect(acceptor_.local_endpoint());
    thread_.join();
  }
  SilentServer(const SilentServer&) = delete;
  SilentServer& operator=(const SilentServer&) = delete;

  ServerAddress address() const { return {"127.0.0.1", acceptor_.local_endpoint().port()}; }

 private:
  struct Connection {
    explicit Connection(asio::ip::tcp::socket accepted) : socket(std::move(accepted)) {}

    asio::ip::tcp::socket socket;
    transport::RdmaTransport transport{0};
  };

  void Run() {
    while (true) {
      auto connection = std::make_unique<Connection>(acceptor_.accept());
      if (stopped_) return;
      Greet(*connection);
      if (!closes_) {
        connections_.push_back(std::move(connection));
      } else {
        ReceiveFrame(connection->socket);
      }
    }
  }

  static std::vector<uint8_t> ReceiveFrame(asio::ip::tcp::socket& socket) {
    std::array<uint8_t, protocol::FrameHeader::kBytes> bytes;
    std::error_code error;
    asio::read(socket, asio::buffer(bytes), error);
    const auto header = error ? std::nullopt : protocol::DecodeHeader(bytes);
    if (!header) return {};
    std::vector<uint8_t> body(header->bytes - protocol::FrameHeader::kBytes);
    asio::read(socket, asio::buffer(body), error);
    return body;
  }

  void Greet(Connection& connection) {
    const auto hello = protocol::DecodeHello(ReceiveFrame(connection.socket));
    if (!hello) return;
    const transport::Bound bound = connection.transport.Bind();
    std::error_code ignored;  // the client may be gone
    asio::write(
        connection.socket,
        asio::buffer(EncodeFrame(protocol::Welcome{.key = hello->key, .url = bound.url, .max_requests = 4})),
        ignored);
    if (!connection.transport.Connect(hello->url).ok()) return;
    const transport::RdmaRemoteBuffer nowhere{nullptr, {.nics = transport::AccessKey::kMaxNics}, 0};
    connection.transport.Write(registration_.CreateView(0, 0), nowhere, {.notify = true}).wait();
  }

  const bool closes_;
  std::atomic<bool> stopped_ = false;
  asio::io_context context_;
  asio::ip::tcp::acceptor acceptor_;
  std::vector<uint8_t> memory_;
  transport::RdmaMemory registration_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::thread thread_;
};

class Reconnect : public Served {
 protected:
  /// Ends the server, and starts another one at its port.
  void Restart() {
    server_config_.port = client_config_.servers[0].port;
    server_.reset();
    server_ = std::make_unique<Looped<FileServer>>(server_config_);
  }
};

TEST_F(Reconnect, OpensFilesAgain) {
  const auto pattern = Pattern(100'000, 1);
  WriteFile(folder_ / "file", pattern);
  const uint64_t file = client().MustOpen("file", O_RDWR);
  Memory memory(pattern.size());
  for (int i = 0; i < 3; ++i) {
    Restart();
    EXPECT_EQ(client().Read(file, 0, memory.Remote()).result, 100'000);
    EXPECT_EQ(memory.bytes(), pattern);
    EXPECT_EQ(client().Write(file, 0, memory.Remote()), 100'000);
  }
  EXPECT_EQ(ReadFile(folder_ / "file"), pattern) << "a file is not truncated when it is opened again";
}

TEST_F(Reconnect, FollowsRenamesOfThisClient) {
  fs::create_directory(folder_ / "a");
  WriteFile(folder_ / "a/file", {1, 2, 3});
  const uint64_t file = client().MustOpen("a/file", O_RDONLY);
  ASSERT_EQ(client().Rename("a", "b"), 0);
  Restart();
  Memory memory(10);
  EXPECT_EQ(client().Read(file, 0, memory.Remote()).result, 3);
}

TEST_F(Reconnect, TakesNoOtherFileForTheOneThatWasOpen) {
  WriteFile(folder_ / "file", {1, 2, 3});
  WriteFile(folder_ / "other", {1, 2, 3});
  const uint64_t file = client().MustOpen("file", O_RDONLY), other = client().MustOpen("other", O_RDONLY);
  WriteFile(folder_ / "new", {7});
  fs::rename(folder_ / "new", folder_ / "file");
  fs::remove(folder_ / "other");
  Restart();
  Memory memory(10);
  EXPECT_EQ(client().Read(file, 0, memory.Remote()).result, -ESTALE);
  EXPECT_EQ(client().Read(other, 0, memory.Remote()).result, -ESTALE);
}

TEST_F(Reconnect, TellsThatUnsyncedWritesMayBeLost) {
  const uint64_t file = (Serve(), client().MustOpen("file", O_RDWR | O_CREAT));
  Memory memory(1000);
  ASSERT_EQ(client().Write(file, 0, memory.Remote()), 1000);
  ASSERT_EQ(client().Sync(file), 0);
  Restart();
  EXPECT_EQ(client().Sync(file), 0) << "all was synced before";
  ASSERT_EQ(client().Write(file, 0, memory.Remote()), 1000);
  Restart();
  EXPECT_EQ(client().Sync(file), EREMOTEIO);
  EXPECT_EQ(client().Sync(file), 0) << "it is told once";
}

TEST_F(Reconnect, TakesTheNextServer) {
  const auto pattern = Pattern(100'000, 1);
  WriteFile(folder_ / "file", pattern);
  server_config_.folder = folder_.path();
  server_ = std::make_unique<Looped<FileServer>>(server_config_);
  auto second = std::make_unique<Looped<FileServer>>(server_config_);
  const uint16_t ports[] = {(*server_)->port(), (*second)->port()};
  client_config_.servers = {{"127.0.0.1", 1}, {"127.0.0.1", ports[0]}, {"127.0.0.1", ports[1]}};
  client_ = std::make_unique<Client>(client_config_);
  const uint64_t file = client().MustOpen("file", O_RDONLY);
  EXPECT_EQ(client().Server()->port, ports[0]);
  server_.reset();
  Memory memory(pattern.size());
  EXPECT_EQ(client().Read(file, 0, memory.Remote()).result, 100'000);
  EXPECT_EQ(client().Server()->port, ports[1]);
  server_config_.port = ports[0];
  server_ = std::make_unique<Looped<FileServer>>(server_config_);
  second.reset();
  EXPECT_EQ(client().Read(file, 0, memory.Remote()).result, 100'000);
  EXPECT_EQ(client().Server()->port, ports[0]);
}

TEST_F(Reconnect, RepeatsReadsAndWritesUnderWay) {
  HeldWrites held;
  server_config_.wrap_disk = held.Wrap();
  const auto pattern = Pattern(8 << 20, 1);
  WriteFile(folder_ / "file", pattern);
  const uint64_t file = client().MustOpen("file", O_RDONLY),
                 copy = client().MustOpen("copy", O_WRONLY | O_CREAT);
  Memory memory(pattern.size()), source(pattern.size());
  source.Set(pattern);
  std::promise<int64_t> read, written;
  client()->Read(file, 0, memory.Remote(), [&](const ReadResult& result) { read.set_value(result.result); });
  client()->Write(copy, 0, source.Remote(), [&](int64_t bytes) { written.set_value(bytes); });
  ASSERT_TRUE(Eventually([&] { return Statistics().requests >= 4; }));
  ASSERT_TRUE(Eventually([&] { return held.held() == 8; })) << "the write is under way";
  held.Release();
  Restart();
  EXPECT_EQ(GetInTime(read.get_future()), static_cast<int64_t>(pattern.size()));
  EXPECT_EQ(GetInTime(written.get_future()), static_cast<int64_t>(pattern.size()));
  EXPECT_GE(Statistics().requests, 2u) << "the write came again, behind the open of its file";
  EXPECT_TRUE(memory.bytes() == pattern);
  EXPECT_TRUE(ReadFile(folder_ / "copy") == pattern);
}

TEST_F(Reconnect, SeesNoEndOfAServerBeforeItsWritesHaveEnded) {
  HeldWrites held;
  server_config_.wrap_disk = held.Wrap();
  const auto pattern = Pattern(1000, 1);
  Memory memory(pattern.size());
  memory.Set(pattern);
  const uint64_t file = client().MustOpen("file", O_WRONLY | O_CREAT);
  client()->Write(file, 0, memory.Remote(), [](int64_t) {});
  ASSERT_TRUE(Eventually([&] { return held.held() == 1; }));
  {
    std::jthread stop([&] { server_.reset(); });
    usleep(100'000);  // a server that does not wait has closed its connections by then
    EXPECT_TRUE(client().Server());
    EXPECT_EQ(fs::file_size(folder_ / "file"), 0u);
    held.Release();
  }
  EXPECT_TRUE(Eventually([&] { return !client().Server(); }));
  EXPECT_EQ(ReadFile(folder_ / "file"), pattern);
}

TEST_F(Reconnect, SeesNoEndOfItsSessionBeforeItsWritesHaveEnded) {
  WriteFile(folder_ / "other", Pattern(1000, 2));
  HeldWrites held;
  server_config_.wrap_disk = held.Wrap();
  const auto pattern = Pattern(1000, 1);
  Memory memory(pattern.size()), target(1000);
  memory.Set(pattern);
  const uint64_t file = client().MustOpen("file", O_WRONLY | O_CREAT),
                 other = client().MustOpen("other", O_RDONLY);
  std::promise<int64_t> written;
  client()->Write(file, 0, memory.Remote(), [&](int64_t result) { written.set_value(result); });
  ASSERT_TRUE(Eventually([&] { return held.held() == 1; }));
  transport::RdmaRemoteBuffer wrong = target.Remote();
  wrong.access_key.rkeys[0] ^= 0xff00;
  EXPECT_EQ(client().Read(other, 0, wrong).result, -EFAULT) << "with which the server ends the session";
  usleep(100'000);  // a server that does not wait has closed the connection by then
  EXPECT_TRUE(client().Server());
  EXPECT_EQ(fs::file_size(folder_ / "file"), 0u);
  held.ReleaseOn(server_->loop());
  EXPECT_EQ(GetInTime(written.get_future()), 1000) << "the write came again over the next connection";
  EXPECT_EQ(ReadFile(folder_ / "file"), pattern);
  EXPECT_EQ(Statistics().clients, 2u);
}

/// The old write may come after the new one, and after what the caller does next.
TEST_F(Reconnect, RepeatsNoWriteOfAConnectionThatTheServerHasNotClosed) {
  HeldWrites held;
  server_config_.wrap_disk = held.Wrap();
  client_config_.timeout = std::chrono::seconds(4);
  Serve();
  server_config_.wrap_disk = {};
  Looped<FileServer> other(server_config_);
  client_config_.servers.push_back({"127.0.0.1", other->port()});
  client_ = std::make_unique<Client>(client_config_);
  Memory memory(1000);
  const uint64_t file = client().MustOpen("file", O_RDWR | O_CREAT);
  std::promise<int64_t> late, early;
  client()->Write(file, 0, memory.Remote(), [&](int64_t result) { late.set_value(result); });
  ASSERT_TRUE(Eventually([&] { return held.held() == 1; }));
  sleep(1);
  client()->Write(file, 0, memory.Remote(), [&](int64_t result) { early.set_value(result); });
  EXPECT_EQ(GetInTime(late.get_future()), -EREMOTEIO);
  EXPECT_EQ(GetInTime(early.get_future()), -EREMOTEIO) << "its own time had not passed";
  EXPECT_EQ(fs::file_size(folder_ / "file"), 0u);
  EXPECT_EQ(client().Write(file, 0, memory.Remote()), 1000);
  EXPECT_EQ(client().Server()->port, other->port());
  held.Release();
}

TEST_F(Reconnect, RepeatsNothingThatMayDestroyWhatOthersWrote) {
  SilentServer silent(true);
  WriteFile(folder_ / "file", {1, 2, 3});
  Serve();
  client_config_.servers.insert(client_config_.servers.begin(), silent.address());
  const auto with_a_new_client = [&](auto call) {
    Client client(client_config_);
    return call(client);
  };
  EXPECT_EQ(with_a_new_client([](Client& client) { return client.Open("file", O_WRONLY | O_TRUNC).first; }),
            EREMOTEIO);
  EXPECT_EQ(with_a_new_client([](Client& client) { return client.ChangeAttributes("file", {.bytes = 0}); }),
            EREMOTEIO);
  EXPECT_EQ(with_a_new_client([](Client& client) { return client.Unlink("file"); }), EREMOTEIO);
  EXPECT_EQ(with_a_new_client([](Client& client) { return client.Open("file", O_WRONLY).first; }), 0);
  EXPECT_EQ(ReadFile(folder_ / "file"), (std::vector<uint8_t>{1, 2, 3}));
}

TEST_F(Reconnect, TakesTheNextServerIfOneAnswersNothing) {
  SilentServer silent(false);
  WriteFile(folder_ / "file", {1});
  Serve();
  client_config_.timeout = std::chrono::seconds(2);
  client_config_.servers.insert(client_config_.servers.begin(), silent.address());
  client_ = std::make_unique<Client>(client_config_);
  EXPECT_TRUE(Eventually([&] { return std::get<0>(client().GetAttributes("file")) == 0; }));
}

TEST_F(Reconnect, EndsRequestsAtTheirTimeout) {
  client_config_.timeout = std::chrono::milliseconds(300);
  client_config_.servers = {{"127.0.0.1", 1}};  // nobody listens there
  client_ = std::make_unique<Client>(client_config_);
  EXPECT_EQ(client().Open("file", O_RDONLY).first, EREMOTEIO);
  EXPECT_EQ(client().MakeDirectory("folder"), EREMOTEIO);
  EXPECT_FALSE(client().Server());
}

TEST_F(Reconnect, EndsRequestsAtTheirTimeoutIfTheServerIsSilent) {
  asio::io_context context;
  asio::ip::tcp::acceptor silent(context, {asio::ip::address_v4::loopback(), 0});
  client_config_.timeout = std::chrono::milliseconds(300);
  client_config_.servers = {{"127.0.0.1", silent.local_endpoint().port()}};
  client_ = std::make_unique<Client>(client_config_);
  EXPECT_EQ(client().Open("file", O_RDONLY).first, EREMOTEIO);
}

TEST_F(Reconnect, TakesTheNextServerIfOneIsSilent) {
  asio::io_context context;
  asio::ip::tcp::acceptor silent(context, {asio::ip::address_v4::loopback(), 0});
  WriteFile(folder_ / "file", {1});
  Serve();
  client_config_.connect_timeout = std::chrono::milliseconds(500);
  client_config_.servers.insert(client_config_.servers.begin(),
                                {"127.0.0.1", silent.local_endpoint().port()});
  client_ = std::make_unique<Client>(client_config_);
  EXPECT_EQ(client().Open("file", O_RDONLY).first, 0);
}

TEST_F(Reconnect, CancelsRequestsWhenTheClientEnds) {
  client_config_.servers = {{"127.0.0.1", 1}};
  std::promise<int> opened;
  {
    Client client(client_config_);
    client->Open("file", O_RDONLY, 0, [&](int error, const OpenedFile&) { opened.set_value(error); });
  }
  EXPECT_EQ(GetInTime(opened.get_future()), ECANCELED);
}

TEST_F(Reconnect, LeavesNothingOpenAtTheServer) {
  WriteFile(folder_ / "file", {1});
  Serve();
  const auto open_files = [this] {
    size_t open = 0;
    for (const auto& file : fs::directory_iterator("/proc/self/fd")) {
      std::error_code closed;
      open += fs::read_symlink(file, closed).string().starts_with(folder_.path().string() + "/") ? 1 : 0;
    }
    return open;
  };
  client().MustOpen("file", O_RDONLY);
  const size_t before = open_files();
  for (int round = 0; round < 3; ++round) {
    Client other(client_config_);
    for (int i = 0; i < 50; ++i) other.MustOpen("file", O_RDONLY);
    EXPECT_GE(open_files(), before + 50);
  }
  ASSERT_TRUE(Eventually([&] { return Statistics().clients_now == 1; }));
  EXPECT_TRUE(Eventually([&] { return open_files() <= before; })) << open_files() << " of " << before;
}

TEST_F(Reconnect, NeedsAServerToBeNamed) {
  transport::EventLoop loop;
  EXPECT_THROW(FileClient(FileClientConfig{}, loop), host::Error);
}

TEST_F(Reconnect, IsRefusedByAFullServer) {
  server_config_.max_clients = 1;
  WriteFile(folder_ / "file", {1});
  ASSERT_EQ(client().Open("file", O_RDONLY).first, 0);
  client_config_.timeout = std::chrono::seconds(2);
  std::mutex mutex;
  std::string log;
  client_config_.log = [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    log += line + "\n";
  };
  {
    Client second(client_config_);
    EXPECT_EQ(second.Open("file", O_RDONLY).first, EREMOTEIO);
  }
  EXPECT_THAT(log, testing::HasSubstr("raise --clients"));
  EXPECT_EQ(client().Open("file", O_RDONLY).first, 0);
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
