#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <asio/thread_pool.hpp>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "gpuio/protocol/framed_socket.hpp"
#include "gpuio/protocol/messages.hpp"
#include "gpuio/server/folder.hpp"
#include "gpuio/server/job_queue.hpp"
#include "gpuio/server/server.hpp"
#include "gpuio/server/server_file.hpp"
#include "gpuio/server/transfer.hpp"
#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/transport/rdma_transport.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

class Session;

/// The parts of a server that all its sessions use.
struct ServerParts {
  ServerParts(transport::EventLoop& loop, const FileServerConfig& config);
  ~ServerParts();

  void Log(const std::string& line) const;

  /// Says whether a line about a stranger may be logged: 20 a minute, so that a scan does not fill the disk.
  bool MayLogStranger();

  /// Ends the sessions of clients that have the most answers unread, until those of the others are few
  /// enough.
  void EndHoarders();

  const FileServerConfig config;
  transport::EventLoop& loop;
  asio::thread_pool threads;  ///< for calls of the file system that io_uring does not have
  JobQueue jobs;              ///< shares the threads out to clients
  Folder folder;
  Arena arena;
  Scheduler scheduler;
  std::unique_ptr<Disk> disk;
  DataPath path;
  FileServerStatistics statistics{};
  size_t unsent_bytes = 0;        ///< answers that clients have not read
  std::set<Session*> clients;     ///< sessions that have greeted and not ended
  size_t files = 0;               ///< files that clients have open, or are opening
  const size_t max_files;         ///< files that the process's limit leaves for all clients
  const size_t max_unsent_bytes;  ///< the answers of one client, which may read them late, are never more

 private:
  std::chrono::steady_clock::time_point stranger_minute_{};
  unsigned stranger_lines_ = 0;
};

/// A client's connection: its requests, its files, its transport.
///
/// A session ends in two steps. Stop() starts nothing more for the client, and no NIC uses memory for it
/// afterwards. Close() ends the connection, once no disk and no thread works for the client: a client that
/// sees its connection end repeats its writes elsewhere, and the old ones must not come after them.
///
/// Handlers of the loop share it. All calls are on the loop's thread.
class Session : public RemoteMemory, public std::enable_shared_from_this<Session> {
 public:
  using OnEnd = std::function<void()>;

  Session(std::shared_ptr<ServerParts> parts, asio::ip::tcp::socket socket);

  /// Waits for the client's greeting, and serves it then.
  ///
  /// @param on_end   called once, within Close() too
  void Start(OnEnd on_end);

  /// Stops, and closes once nothing is under way.
  void End(const std::string& reason);

  void Stop();

  /// @pre  no disk and no thread works for the client
  void Close();

  bool greeted() const { return greeted_; }
  size_t unsent_bytes() const { return unsent_bytes_; }  ///< answers that the client has not read

  // For its transfers.
  void Write(const transport::RdmaMemory::View& from, const transport::RdmaRemoteBuffer& to,
             Done done) override;
  void Read(const transport::RdmaMemory::MutableView& to, const transport::RdmaRemoteBuffer& from,
            Done done) override;
  void Fail(const transport::Status& status) override;
  bool failed() const override { return gone_; }
  void InThread(std::function<void()> call, std::function<void()> then) override;

 private:
  void EndUnlessCancelledWithin(std::chrono::milliseconds time, const std::string& reason);
  void EndWork();
  void OnFrame(const protocol::FrameHeader& header, std::span<const uint8_t> body);
  void OnHello(const protocol::FrameHeader& header, std::span<const uint8_t> body);
  std::string Accept(const protocol::Hello& hello, protocol::Welcome& welcome);
  void ProveRdma();
  void ReportGone(Done done);
  void OnSent(size_t bytes);
  void Respond(uint64_t id, uint16_t type, int error, const protocol::Reply& reply);

  void On(uint64_t id, protocol::OpenRequest request);
  void On(uint64_t id, const protocol::CloseRequest& request);
  void On(uint64_t id, const protocol::ReadRequest& request);
  void On(uint64_t id, const protocol::WriteRequest& request);
  void On(uint64_t id, const protocol::SyncRequest& request);
  void On(uint64_t id, const protocol::PunchHoleRequest& request);
  void On(uint64_t id, protocol::GetAttributesRequest request);
  void On(uint64_t id, protocol::ChangeAttributesRequest request);
  void On(uint64_t id, protocol::ListRequest request);
  void On(uint64_t id, protocol::MakeDirectoryRequest request);
  void On(uint64_t id, protocol::RemoveRequest request);
  void On(uint64_t id, protocol::RenameRequest request);
  void On(uint64_t id, protocol::HardLinkRequest request);
  void On(uint64_t id, protocol::ReadLinkRequest request);
  void On(uint64_t id, const protocol::SpaceRequest& request);

  template <class Request, class Call>
  void AnswerInThread(uint64_t id, const Request& request, Call call);
  template <class TransferType, class Request>
  void StartTransfer(uint64_t id, const Request& request);
  void Count(const TransferResult& result, uint32_t access);
  uint64_t AddFile(host::FileDescriptor file, uint32_t access, DirectIo direct);
  std::shared_ptr<ServerFile> FileOf(uint64_t handle) const;

  const std::shared_ptr<ServerParts> parts_;
  const std::shared_ptr<protocol::FramedSocket> socket_;
  const std::shared_ptr<Scheduler::Share> share_ = std::make_shared<Scheduler::Share>();
  asio::steady_timer timer_;
  OnEnd on_end_;
  std::optional<transport::RdmaTransport> transport_;
  bool greeted_ = false, misbehaved_ = false, failed_ = false, ended_ = false;
  std::atomic<bool> gone_ = false;  // jobs look at it, too
  std::unordered_map<uint64_t, std::shared_ptr<ServerFile>> files_;
  int kept_ = -1;  // by the disk
  size_t opening_ = 0;
  uint64_t next_handle_ = 1;
  size_t requests_ = 0;  // not answered yet
  size_t work_ = 0;      // transfers, operations of the disk and jobs under way
  size_t unsent_bytes_ = 0;  // of answers
  const std::shared_ptr<JobQueue::Share> jobs_ = std::make_shared<JobQueue::Share>();
};

}  // namespace warpverbs::inline v0_2::gpuio
