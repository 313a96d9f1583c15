#include "gpuio/protocol/framed_socket.hpp"

#include <netinet/tcp.h>

#include <asio/buffer.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <cstring>
#include <utility>

namespace warpverbs::inline v0_2::gpuio::protocol {
namespace {

/// Lets the kernel find out within half a minute that the peer's machine is gone.
void WatchPeer(asio::ip::tcp::socket& socket) {
  using Option = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPIDLE>;
  using Interval = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPINTVL>;
  using Count = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPCNT>;
  using Unacknowledged = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_USER_TIMEOUT>;
  std::error_code ignored;  // the connection works without
  socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  socket.set_option(Option(10), ignored);
  socket.set_option(Interval(5), ignored);
  socket.set_option(Count(4), ignored);
  socket.set_option(Unacknowledged(30'000), ignored);
}

std::string PeerOf(const asio::ip::tcp::socket& socket) {
  std::error_code error;
  const auto peer = socket.remote_endpoint(error);
  if (error) return "a client that is gone";
  const std::string address = peer.address().to_string();
  return (peer.address().is_v6() ? "[" + address + "]" : address) + ":" + std::to_string(peer.port());
}

}  // namespace

FramedSocket::FramedSocket(asio::ip::tcp::socket socket)
    : socket_(std::move(socket)),
      peer_(PeerOf(socket_)),
      linger_(socket_.get_executor()),
      incoming_(kMaxFrameBytes) {
  WatchPeer(socket_);
}

void FramedSocket::Start(OnFrame on_frame, OnEnd on_end) {
  on_frame_ = std::move(on_frame);
  on_end_ = std::move(on_end);
  Receive();
}

void FramedSocket::Receive() {
  if (closed_) return;
  const auto take = [self = shared_from_this()](const std::error_code& error, size_t bytes) {
    if (self->closed_ || self->close_when_sent_) return;
    if (error) return self->End(error);
    self->received_ += bytes;
    size_t used = 0;
    const auto on_frame = self->on_frame_;  // Close(), which a call may lead to, drops the other one
    while (!self->closed_ && !self->close_when_sent_ && self->received_ - used >= FrameHeader::kBytes) {
      const std::span<const uint8_t> rest(self->incoming_.data() + used, self->received_ - used);
      const auto header = DecodeHeader(rest.first<FrameHeader::kBytes>());
      if (!header) return self->End("the peer sent bytes that are not a frame", false);
      if (rest.size() < header->bytes) break;
      on_frame(*header, rest.first(header->bytes).subspan(FrameHeader::kBytes));
      used += header->bytes;
    }
    if (self->closed_) return;
    std::memmove(self->incoming_.data(), self->incoming_.data() + used, self->received_ - used);
    self->received_ -= used;
    self->Receive();
  };
  socket_.async_read_some(asio::buffer(incoming_.data() + received_, incoming_.size() - received_), take);
}

void FramedSocket::Send(std::vector<uint8_t> frame, std::function<void()> sent) {
  if (closed_ || close_when_sent_) return;
  outgoing_.push_back({std::move(frame), std::move(sent)});
  if (outgoing_.size() == 1) SendNext();
}

void FramedSocket::SendNext() {
  asio::async_write(socket_, asio::buffer(outgoing_.front().bytes),
                    [self = shared_from_this()](const std::error_code& error, size_t) {
                      if (self->closed_) return;
                      if (error) return self->End(error);
                      const auto sent = std::move(self->outgoing_.front().sent);
                      self->outgoing_.pop_front();
                      if (sent) sent();
                      if (self->closed_) return;
                      if (!self->outgoing_.empty()) return self->SendNext();
                      if (self->close_when_sent_) self->Close();
                    });
}

void FramedSocket::End(const std::error_code& error) {
  // A peer that closes with bytes of ours unread, or a machine that has started again, resets the connection.
  const bool reset = error == asio::error::connection_reset || error == asio::error::broken_pipe;
  const bool closed = error == asio::error::eof;
  End(closed ? "the peer closed it" : error.message(), closed || reset);
}

void FramedSocket::End(const std::string& reason, bool by_peer) {
  const auto on_end = on_end_;
  Close();
  if (on_end) on_end(reason, by_peer);
}

void FramedSocket::Close() {
  if (closed_) return;
  closed_ = true;
  std::error_code ignored;
  socket_.close(ignored);
  linger_.cancel();
  on_frame_ = {};  // what they hold may hold this
  on_end_ = {};
}

void FramedSocket::CloseAfterSending() {
  if (closed_ || close_when_sent_) return;
  if (outgoing_.empty()) return Close();
  close_when_sent_ = true;
  on_end_ = {};
  linger_.expires_after(std::chrono::seconds(5));  // the peer may not read
  linger_.async_wait([self = shared_from_this()](const std::error_code& error) {
    if (!error) self->Close();
  });
}

}  // namespace warpverbs::inline v0_2::gpuio::protocol
