#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpuio/files/file_client.hpp"
#include "gpuio/files/server_connection.hpp"
#include "gpuio/protocol/messages.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// @param error  an errno value; 0: the reply is of the request's type
using RequestDone = std::function<void(int error, protocol::Reply& reply)>;

struct ClientRequest;

/// A file that the user has open. Its requests share it.
struct ClientFile {
  uint64_t id = 0;
  std::string path{};
  uint32_t flags = 0;  ///< to open it once more
  uint64_t inode = 0;
  uint64_t handle = 0;  ///< on the connection of that number
  uint64_t connection = 0;
  bool opening = false, closed = false;
  std::vector<std::shared_ptr<ClientRequest>> waiting{};  ///< until it is open again

  uint64_t writes = 0, synced_writes = 0;
  bool lost_writes = false;  ///< a connection ended before all writes were synced
};

struct ClientRequest {
  protocol::Request message{};
  std::shared_ptr<ClientFile> file{};  ///< file whose handle the message takes
  bool needs_file = false;
  uint64_t connection = 0;  ///< on no other connection; 0: on any
  RequestDone done{};       ///< called on the loop's thread, within calls of the queue

  // The queue's own.
  std::chrono::steady_clock::time_point deadline{};
  std::optional<std::list<std::shared_ptr<ClientRequest>>::iterator> place{};  // in the list of deadlines
  uint64_t id = 0;                                                             // of the last attempt
  int attempts = 0;
  bool ended = false;
};

/// The requests of a client: sends them over the present connection, connects again when that ends, opens
/// files again, repeats what was under way if that does no harm, and ends what takes too long.
///
/// A server that does not answer a request in time loses its connection, so that the next one is taken, and
/// so that it uses no buffer of a request that has ended.
///
/// All calls are on the loop's thread.
class RequestQueue : public std::enable_shared_from_this<RequestQueue> {
 public:
  RequestQueue(const FileClientConfig& config, transport::EventLoop& loop);
  virtual ~RequestQueue() = default;

  /// Starts to connect.
  void Connect();

  void Submit(ClientRequest request);

  /// Ends everything with ECANCELED.
  void Close();

  OpenedFile AddFile(const protocol::OpenRequest& request, const protocol::OpenReply& reply);
  std::shared_ptr<ClientFile> Find(uint64_t file) const;
  void RemoveFile(uint64_t file);

  /// Follows a rename by this client: files are opened again by their new paths.
  void RenameFiles(const protocol::RenameRequest& request);

  asio::io_context& context() const { return loop_.context(); }
  std::optional<ServerAddress> Server() const;

 private:
  using Pending = std::shared_ptr<ClientRequest>;

  void Pump();
  void Send(const Pending& request);
  void Reopen(const std::shared_ptr<ClientFile>& file);
  void OnReopened(const std::shared_ptr<ClientFile>& file, int error, const protocol::Reply& reply);
  void CloseHandle(const ClientFile& file);
  void OnReady(const protocol::Welcome& welcome);
  void OnReply(const protocol::FrameHeader& header, std::span<const uint8_t> body);
  void OnEnd(const std::string& reason, bool by_server);
  void ConnectLater();
  void StartDeadline(const Pending& request);
  void WatchDeadlines();
  void OnDeadline();
  void End(const Pending& request, int error, protocol::Reply reply = {});
  void Log(const std::string& line) const;
  std::string ServerName() const;

  const FileClientConfig config_;
  transport::EventLoop& loop_;
  asio::steady_timer reconnect_timer_, deadline_timer_;
  std::shared_ptr<ServerConnection> connection_;
  uint64_t connection_number_ = 0;
  size_t server_ = 0;
  size_t failures_ = 0;  // connections in a row that brought no reply
  bool ready_ = false, closed_ = false, watching_ = false;
  size_t max_requests_ = 0;
  uint64_t next_id_ = 1, next_file_ = 1;
  std::deque<Pending> queue_;
  std::map<uint64_t, Pending> sent_;  // none of which has ended
  std::list<Pending> deadlines_;      // in their order: all have the same timeout
  std::map<uint64_t, std::shared_ptr<ClientFile>> files_;
};

}  // namespace warpverbs::inline v0_2::gpuio
