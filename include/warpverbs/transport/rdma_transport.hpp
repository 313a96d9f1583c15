#pragma once

#include <asio/async_result.hpp>
#include <asio/use_future.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "warpverbs/transport/config.hpp"
#include "warpverbs/transport/detail/handler.hpp"
#include "warpverbs/transport/event_loop.hpp"
#include "warpverbs/transport/memory.hpp"
#include "warpverbs/transport/status.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::transport {

/// The result of Bind(). The URL is valid if the status is success.
struct Bound {
  Status status;
  std::string url;
};

/// One of several writes that end together.
struct ListWrite {
  RdmaMemory::View local;
  RdmaRemoteBuffer remote;
};

/// A connection to one peer over RDMA: writes to its memory, reads from it, and notifications.
///
/// Each side binds, sends its URL to the other by any means, and connects with the other's URL, in any order.
/// Operations started before the peer has connected wait for it. Operations return at once and end by an Asio
/// completion token: a future (the default), a callback `void(Status)`, `asio::use_awaitable` ... A callback
/// runs on the event loop unless it has an executor of its own. Operations run in parallel. Only
/// notifications have an order, that of their writes.
///
/// The caller keeps the memory of an operation, and the written bytes unchanged, until the operation has
/// ended. After a timeout the NIC may still use the memory, which stays registered: posted pieces are not
/// taken back, the others are not sent, and the write notifies no one. To stop the NIC, destroy the
/// transport.
///
/// Thread-safe. Any thread may destroy it, and so may a callback. Pending operations then end as aborted;
/// their handlers may run after the destructor has returned. The NIC uses no memory once it has returned. A
/// forked child may destroy its copy, which does nothing, and may not use it.
class WARPVERBS_EXPORT RdmaTransport {
 public:
  /// Says whether this machine has a ConnectX with an active port. Probes once; never throws.
  static bool Supported() noexcept;

  /// Returns the names of the NICs that a device's transports and memory are on.
  ///
  /// @param device, max_nics  as below
  /// @errors  host::Error: the device does not exist, or a number is out of range
  static std::vector<std::string> NicsOf(int device, uint32_t max_nics = 1);

  /// @param device    ordinal of a GPU, whose nearest NICs are used; on a machine without GPUs, index of the
  ///                  first NIC among those with an active port, modulo their number
  /// @param loop      event loop, which must outlive this; nullptr: a thread of its own
  /// @param max_cqe   TransportConfig::depth
  /// @param max_nics  TransportConfig::max_nics
  /// @errors  host::Error: the device does not exist, or a setting is out of range
  explicit RdmaTransport(int device, EventLoop* loop = nullptr, std::optional<int> max_cqe = {},
                         std::optional<int> max_nics = {});
  RdmaTransport(int device, const TransportConfig& config, EventLoop* loop = nullptr);
  ~RdmaTransport();
  RdmaTransport(const RdmaTransport&) = delete;
  RdmaTransport& operator=(const RdmaTransport&) = delete;

  /// Creates the queue pairs; once.
  ///
  /// @return  the URL, one printable word, valid on any machine
  /// @errors  kInvalid: bound before; kInternalError: the device refuses; the caller may try again
  Bound Bind();

  /// Connects to the transport that returned the URL; once.
  ///
  /// @errors  kInvalid: not bound, connected before, or the URL is invalid, this transport's own, or that of
  ///          a peer that cannot be reached from here; kInternalError: this machine is short of memory or
  ///          files and the caller may try again, or, if GetStatus() says so too, the transport is broken
  Status Connect(std::string_view url);

  /// Makes the transport unbound again, in particular a broken one: destroys its queue pairs, and ends
  /// pending operations as aborted. Then Bind() and Connect() connect it to any peer, whose transport must be
  /// new or reset as well.
  ///
  /// Notifications that were not taken are lost. Memory stays registered.
  ///
  /// @return  kInternalError: there is no memory, and the transport is unchanged
  Status Reset();

  /// Says whether Connect() has succeeded and nothing has failed since. The end of an operation shows whether
  /// the peer has connected too.
  bool Connected() const;

  /// Returns success, or the reason why the transport is broken.
  Status GetStatus() const;

  /// Writes local memory to the peer's. An empty write may notify too.
  ///
  /// @return  through the token: kSuccess, when all bytes are in the peer's memory; kTimeout, kInternalError,
  ///          kAccessDenied, kAborted; kInvalid: no connection, memory that is not registered for this
  ///          device, or more bytes than the peer's buffer has
  template <class Token = asio::use_future_t<>>
  auto Write(const RdmaMemory::View& local, const RdmaRemoteBuffer& remote, const WriteOptions& options = {},
             Token&& token = Token()) {
    return Begin(token,
                 Request{.memory = {local, remote}, .notify = options.notify, .timeout = options.timeout});
  }

  /// Writes a list in any order, and ends when all bytes of all entries are in the peer's memory. With
  /// `notify` the peer is notified once, after all of them.
  ///
  /// Neighbours that touch on both sides, in the same registered memory, are written together. Entries
  /// without bytes write nothing. A list without bytes is an empty write.
  ///
  /// @param list  copied
  /// @return  as above; kInvalid names the first invalid entry, and nothing was sent
  template <class Token = asio::use_future_t<>>
  auto Write(std::span<const ListWrite> list, const WriteOptions& options = {}, Token&& token = Token()) {
    return Begin(token, Request{.list = {list.begin(), list.end()},
                                .is_list = true,
                                .notify = options.notify,
                                .timeout = options.timeout});
  }

  /// Reads the peer's memory.
  ///
  /// @return  as Write(); kSuccess, when all bytes have arrived
  template <class Token = asio::use_future_t<>>
  auto Read(const RdmaMemory::MutableView& local, const RdmaRemoteBuffer& remote,
            const ReadOptions& options = {}, Token&& token = Token()) {
    return Begin(token, Request{.is_read = true, .memory = {local, remote}, .timeout = options.timeout});
  }

  /// Waits for a notified write of the peer, all bytes of which have arrived when the wait ends.
  ///
  /// Waits take notifications in order, one each. Notifications that arrive before a wait are kept.
  ///
  /// @return  through the token: kSuccess, kTimeout, kInternalError, kAccessDenied, kAborted, kInvalid: no
  ///          connection
  template <class Token = asio::use_future_t<>>
  auto WaitForWrite(const WaitOptions& options = {}, Token&& token = Token()) {
    return asio::async_initiate<Token, void(Status)>(
        [this, options](auto handler) {
          StartWait(options, detail::Handler(std::move(handler), loop_->executor()));
        },
        token);
  }

  /// Describes in lines of text what was chosen and why.
  std::string Describe() const;

 private:
  class Core;
  class CurrentCore;

  /// The arguments of a write or a read.
  struct Request {
    bool is_read = false;
    ListWrite memory{};             ///< memory of a single transfer
    std::vector<ListWrite> list{};  ///< entries of a list, in place of `memory`
    bool is_list = false;
    bool notify = false;
    std::optional<std::chrono::nanoseconds> timeout{};
  };

  template <class Token>
  auto Begin(Token& token, Request request) {
    return asio::async_initiate<Token, void(Status)>(
        [this, request = std::move(request)](auto handler) {
          StartTransfer(request, detail::Handler(std::move(handler), loop_->executor()));
        },
        token);
  }
  void StartTransfer(const Request& request, detail::Handler handler);
  void StartWait(const WaitOptions& options, detail::Handler handler);

  /// Returns the present core: Reset() replaces it while other threads use the transport.
  std::shared_ptr<Core> core() const;

  std::unique_ptr<EventLoop> own_loop_;
  EventLoop* loop_;
  const std::unique_ptr<CurrentCore> core_;
};

}  // namespace warpverbs::inline v0_2::transport
