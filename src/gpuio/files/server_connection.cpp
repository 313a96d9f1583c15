#include "gpuio/files/server_connection.hpp"

#include <algorithm>
#include <asio/connect.hpp>
#include <exception>
#include <random>
#include <system_error>
#include <utility>

namespace warpverbs::inline v0_2::gpuio {

using asio::ip::tcp;

namespace {

/// Returns a server's text as a log may print it.
std::string Printable(std::string text) {
  constexpr size_t kLongest = 400;
  text.resize(std::min(text.size(), kLongest));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

}  // namespace

ServerConnection::ServerConnection(transport::EventLoop& loop, const FileClientConfig& config,
                                   const ServerAddress& server)
    : loop_(loop),
      config_(config),
      server_(server),
      resolver_(loop.context()),
      plain_(loop.context()),
      timer_(loop.context()) {
  std::random_device random;
  key_ = (uint64_t{random()} << 32) | random();
}

void ServerConnection::Start(Events events) {
  events_ = std::move(events);
  timer_.expires_after(config_.connect_timeout);
  timer_.async_wait([self = shared_from_this()](const std::error_code& error) {
    if (!error && !self->closed_) self->End("it did not answer in time");
  });
  resolver_.async_resolve(server_.host, std::to_string(server_.port), tcp::resolver::numeric_service,
                          [self = shared_from_this()](const std::error_code& error, const auto& endpoints) {
                            if (self->closed_) return;
                            if (error) return self->End(error.message());
                            self->Connect(endpoints);
                          });
}

void ServerConnection::Connect(const tcp::resolver::results_type& endpoints) {
  asio::async_connect(plain_, endpoints,
                      [self = shared_from_this()](const std::error_code& error, const tcp::endpoint&) {
                        if (self->closed_) return;
                        if (error) return self->End(error.message());
                        self->Greet();
                      });
}

void ServerConnection::Greet() {
  socket_ = std::make_shared<protocol::FramedSocket>(std::move(plain_));
  try {
    transport_.emplace(config_.device, config_.transport, &loop_);
  } catch (const std::exception& error) {
    return End(error.what());
  }
  const transport::Bound bound = transport_->Bind();
  if (!bound.status.ok()) return End(bound.status.Describe());
  // Close() drops these callbacks. Until then the client owns this.
  socket_->Start(
      [this](const protocol::FrameHeader& header, std::span<const uint8_t> body) { OnFrame(header, body); },
      [this](const std::string& reason, bool by_peer) { End(reason, by_peer); });
  socket_->Send(EncodeFrame(protocol::Hello{.key = key_, .url = bound.url}));
}

void ServerConnection::OnFrame(const protocol::FrameHeader& header, std::span<const uint8_t> body) {
  if (!std::exchange(welcomed_, true)) return OnWelcome(header, body);
  const auto reply = events_.reply;  // Close(), which it may lead to, drops the other one
  reply(header, body);
}

void ServerConnection::OnWelcome(const protocol::FrameHeader& header, std::span<const uint8_t> body) {
  const auto welcome = header.type == protocol::Welcome::kType ? protocol::DecodeWelcome(body) : std::nullopt;
  if (!welcome || welcome->magic != protocol::kMagic || welcome->key != key_)
    return End("it is not a warpverbs-filed");
  if (!welcome->refusal.empty()) return End("it refuses: " + Printable(welcome->refusal));
  if (welcome->version != protocol::kVersion || welcome->max_requests == 0)
    return End("its version of the protocol differs");
  const transport::Status connected = transport_->Connect(welcome->url);
  if (!connected.ok()) return End(connected.Describe());
  transport_->WaitForWrite({},
                           [self = shared_from_this(), welcome = *welcome](const transport::Status& status) {
                             if (self->closed_) return;
                             if (!status.ok()) return self->End("RDMA does not work: " + status.Describe());
                             self->timer_.cancel();
                             const auto ready = self->events_.ready;
                             ready(welcome);
                           });
}

void ServerConnection::End(const std::string& reason, bool by_server) {
  if (closed_) return;
  const auto end = events_.end;
  Close();
  if (end) end(reason, by_server);
}

void ServerConnection::Close() {
  if (std::exchange(closed_, true)) return;
  const auto keep = shared_from_this();
  transport_.reset();
  resolver_.cancel();
  std::error_code ignored;
  plain_.close(ignored);
  timer_.cancel();
  if (socket_) socket_->Close();
  events_ = {};
}

}  // namespace warpverbs::inline v0_2::gpuio
