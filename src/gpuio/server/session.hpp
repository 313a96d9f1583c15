#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <asio/thread_pool.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "gpuio/protocol/framed_socket.hpp"
#include "gpuio/protocol/messages.hpp"
#include "gpuio/server/folder.hpp"
#include "gpuio/server/server.hpp"
#include "gpuio/server/server_file.hpp"
#include "gpuio/server/transfer.hpp"
#include "warpverbs/transport/rdma_transport.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// What all sessions of a server use.
struct ServerParts {
  ServerParts(transport::EventLoop& loop, const FileServerConfig& config);
  ~ServerParts();

  void Log(const std::string& line) const;

  const FileServerConfig config;
  transport::EventLoop& loop;
  asio::thread_pool threads;  ///< for calls of the file system that io_uring does not have
  Folder folder;
  Arena arena;
  Scheduler scheduler;
  std::unique_ptr<Disk> disk;
  DataPath path;
  FileServerStatistics statistics{};
};

/// A client's connection: its requests, its files, its transport.
///
/// Handlers of the loop share it. All calls are on the loop's thread. After the end it answers nothing, and
/// no NIC uses memory for it.
class Session : public RemoteMemory, public std::enable_shared_from_this<Session> {
 public:
  using OnEnd = std::function<void()>;

  Session(std::shared_ptr<ServerParts> parts, asio::ip::tcp::socket socket);

  /// Waits for the client's greeting, and serves it then.
  ///
  /// @param refusal  why no client is taken now; empty: one is
  /// @param on_end   called once, within Close() too
  void Start(std::string refusal, OnEnd on_end);

  void Close();

  // For its transfers.
  void Write(const transport::RdmaMemory::View& from, const transport::RdmaRemoteBuffer& to,
             Done done) override;
  void Read(const transport::RdmaMemory::MutableView& to, const transport::RdmaRemoteBuffer& from,
            Done done) override;
  void Fail(const transport::Status& status) override;
  bool failed() const override { return failed_ || ended_; }

 private:
  void End(const std::string& reason);
  void Expect(std::chrono::milliseconds time, const std::string& what);
  void OnFrame(const protocol::FrameHeader& header, std::span<const uint8_t> body);
  void OnHello(const protocol::FrameHeader& header, std::span<const uint8_t> body);
  std::string Accept(const protocol::Hello& hello, protocol::Welcome& welcome);
  void ProveRdma();
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
  void InThread(uint64_t id, const Request& request, Call call);
  template <class TransferType, class Request>
  void StartTransfer(uint64_t id, const Request& request);
  void Count(const TransferResult& result, uint32_t access);
  std::shared_ptr<ServerFile> FileOf(uint64_t handle) const;

  const std::shared_ptr<ServerParts> parts_;
  const std::shared_ptr<protocol::FramedSocket> socket_;
  const std::shared_ptr<Scheduler::Share> share_ = std::make_shared<Scheduler::Share>();
  asio::steady_timer timer_;
  std::string refusal_;
  OnEnd on_end_;
  std::optional<transport::RdmaTransport> transport_;
  bool greeted_ = false, misbehaved_ = false, failed_ = false, ended_ = false;
  std::unordered_map<uint64_t, std::shared_ptr<ServerFile>> files_;
  int kept_ = -1;  // by the disk
  size_t opening_ = 0;
  uint64_t next_handle_ = 1;
  size_t requests_ = 0, transfers_ = 0;  // under way
};

}  // namespace warpverbs::inline v0_2::gpuio
