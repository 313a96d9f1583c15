#pragma once

#include <asio/async_result.hpp>
#include <asio/use_future.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "warpverbs/transport/detail/handler.hpp"
#include "warpverbs/transport/event_loop.hpp"
#include "warpverbs/transport/memory.hpp"
#include "warpverbs/transport/options.hpp"
#include "warpverbs/transport/status.hpp"

namespace warpverbs::transport {

/// What binding gives: the URL counts only where the status is success.
struct Bound {
  Status status;
  std::string url;
};

/// A connection to one peer over RDMA: writes to its memory, reads of it, and notifications.
///
/// Each side binds, sends its URL to the other by whatever means there are, and connects with the other's, in
/// any order: what is written before the peer is there waits for it. Operations return at once and end by an
/// Asio completion token: a future (the default), a callback `void(Status)`, `asio::use_awaitable` ...; a
/// callback runs on the event loop unless it has an executor of its own. They proceed in parallel: only
/// notifications have an order, that of their writes.
///
/// The memory of an operation stays there, and what is written unchanged, until the operation has ended.
/// After a timeout the NIC may still use it, and keeps it registered: what was posted is not taken back, the
/// rest is not sent, and a write cut short notifies nobody. To be sure of the NIC, destroy the transport.
///
/// Thread-safe. Any thread may destroy it, also a callback; all that is pending then ends as aborted, after
/// the destructor has returned at the latest, and the NIC has let go of all memory when it returns.
class RdmaTransport {
 public:
  /// Whether this machine has a ConnectX with an active port, found out once. Never throws.
  static bool Supported() noexcept;

  /// @param device    the ordinal of a GPU, whose nearest NICs are used; on a machine without GPUs, the
  ///                  number of the NIC to begin with among those that have an active port, counted round
  /// @param loop      must outlive this; nullptr: a thread of its own
  /// @param max_cqe   TransportOptions::depth
  /// @param max_nics  TransportOptions::max_nics
  /// @errors  host::Error: there is no such device, or an option is out of range
  explicit RdmaTransport(int device, EventLoop* loop = nullptr, std::optional<int> max_cqe = {},
                         std::optional<int> max_nics = {});
  RdmaTransport(int device, const TransportOptions& options, EventLoop* loop = nullptr);
  ~RdmaTransport();
  RdmaTransport(const RdmaTransport&) = delete;
  RdmaTransport& operator=(const RdmaTransport&) = delete;

  /// Makes the queue pairs; once.
  ///
  /// @return  the URL, one printable word that crosses machines
  /// @errors  kInvalid: bound before; kInternalError: the device refuses, and may be asked again
  Bound Bind();

  /// Connects to the transport that a URL is of; once.
  ///
  /// @errors  kInvalid: not bound, connected before, no URL of such a transport, this one's own, or of a peer
  ///          that cannot be reached from here; kInternalError: this machine is short of memory or files, and
  ///          may be asked again, or GetStatus() says so too: the transport is broken, whatever the URL
  Status Connect(std::string_view url);

  /// Connect() has succeeded, and nothing has failed since. Whether the peer has connected too, the end of an
  /// operation tells.
  bool Connected() const;

  /// Success, or why the transport is broken.
  Status GetStatus() const;

  /// Writes memory to the peer's. An empty write may notify too.
  ///
  /// @return  by the token: kSuccess, once all bytes are in the peer's memory; kTimeout, kInternalError,
  ///          kAborted; kInvalid: no connection, memory that is not registered for this device, more bytes
  ///          than the peer's buffer has
  template <class Token = asio::use_future_t<>>
  auto Write(const RdmaMemory::View& local, const RdmaRemoteBuffer& remote, const WriteOptions& options = {},
             Token&& token = Token()) {
    return Begin(token, Request{.local = local.data(),
                                .size = local.size(),
                                .registration = local.operator->(),
                                .remote = remote,
                                .notify = options.notify,
                                .timeout = options.timeout});
  }

  /// Reads the peer's memory.
  ///
  /// @return  as Write(); kSuccess: the bytes are here
  template <class Token = asio::use_future_t<>>
  auto Read(const RdmaMemory::MutableView& local, const RdmaRemoteBuffer& remote,
            const ReadOptions& options = {}, Token&& token = Token()) {
    return Begin(token, Request{.is_read = true,
                                .local = local.data(),
                                .size = local.size(),
                                .registration = local.operator->(),
                                .remote = remote,
                                .timeout = options.timeout});
  }

  /// Waits for a write of the peer that notifies: when it ends, all bytes of that write are here. Each wait
  /// takes one notification, first come, first served; one that came before is not lost.
  ///
  /// @return  by the token: kSuccess, kTimeout, kInternalError, kAborted, kInvalid: no connection
  template <class Token = asio::use_future_t<>>
  auto WaitForWrite(const WaitOptions& options = {}, Token&& token = Token()) {
    return asio::async_initiate<Token, void(Status)>(
        [this, options](auto handler) {
          StartWait(options, detail::Handler(std::move(handler), loop_->executor()));
        },
        token);
  }

  /// Says in lines of text what was chosen and why.
  std::string Describe() const;

 private:
  class Core;

  /// A write or a read that was asked for.
  struct Request {
    bool is_read = false;
    const void* local = nullptr;
    size_t size = 0;
    const Registration* registration = nullptr;
    RdmaRemoteBuffer remote{};
    bool notify = false;
    std::optional<std::chrono::nanoseconds> timeout{};
  };

  template <class Token>
  auto Begin(Token& token, const Request& request) {
    return asio::async_initiate<Token, void(Status)>(
        [this, request](auto handler) {
          StartTransfer(request, detail::Handler(std::move(handler), loop_->executor()));
        },
        token);
  }
  void StartTransfer(const Request& request, detail::Handler handler);
  void StartWait(const WaitOptions& options, detail::Handler handler);

  std::unique_ptr<EventLoop> own_loop_;
  EventLoop* loop_;
  std::shared_ptr<Core> core_;
};

}  // namespace warpverbs::transport
