#include "gpuio/server/session.hpp"

#include <sys/stat.h>

#include <asio/post.hpp>
#include <cerrno>
#include <exception>
#include <utility>
#include <variant>

#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::gpuio {

using namespace protocol;

namespace {

constexpr unsigned kThreads = 4;

std::unique_ptr<Disk> MakeDisk(const FileServerConfig& config, transport::EventLoop& loop,
                               std::span<uint8_t> memory, asio::thread_pool& threads) {
  if (config.engine != IoEngine::kThreads) {
    try {
      return MakeUringDisk(loop.context(), memory, config.max_clients);
    } catch (const host::Error&) {
      if (config.engine == IoEngine::kUring) throw;
    }
  }
  return MakeThreadDisk(loop.context(), threads);
}

}  // namespace

ServerParts::ServerParts(transport::EventLoop& event_loop, const FileServerConfig& server_config)
    : config(server_config),
      loop(event_loop),
      threads(kThreads),
      folder(config.folder, config.read_only),
      arena(config.memory, config.device, config.transport.max_nics),
      scheduler({.free = [this] { return arena.free(); },
                 .take = [this] { return arena.Take(); },
                 .put = [this](uint8_t* buffer) { arena.Return(buffer); }}),
      disk(MakeDisk(config, loop, arena.memory(), threads)),
      path{arena, scheduler, *disk} {}

ServerParts::~ServerParts() {
  disk.reset();  // waits for its threads
  threads.join();
}

void ServerParts::Log(const std::string& line) const {
  if (config.log) config.log(line);
}

Session::Session(std::shared_ptr<ServerParts> parts, asio::ip::tcp::socket socket)
    : parts_(std::move(parts)),
      socket_(std::make_shared<FramedSocket>(std::move(socket))),
      timer_(parts_->loop.context()) {}

void Session::Start(std::string refusal, OnEnd on_end) {
  refusal_ = std::move(refusal);
  on_end_ = std::move(on_end);
  Expect(parts_->config.greeting_timeout, "it did not greet as a client does");
  // The socket's callbacks do not own this: Close() drops them, and the server owns this until then.
  socket_->Start([this](const FrameHeader& header, std::span<const uint8_t> body) { OnFrame(header, body); },
                 [this](const std::string& reason) { End(reason); });
}

/// Ends the session unless the timer is cancelled in time.
void Session::Expect(std::chrono::milliseconds time, const std::string& what) {
  timer_.expires_after(time);
  timer_.async_wait([self = weak_from_this(), what](const std::error_code& error) {
    const auto session = self.lock();
    if (!error && session) session->End(what);
  });
}

void Session::End(const std::string& reason) {
  if (ended_) return;
  if (!greeted_) {
    // One line for all of them would hide who it was, one for each would let a scan fill the disk.
    if (parts_->statistics.strangers++ < 20) parts_->Log("refused " + socket_->peer() + ": " + reason);
  } else {
    parts_->Log("client " + socket_->peer() + " left: " + reason);
  }
  Close();
}

void Session::Close() {
  if (std::exchange(ended_, true)) return;
  const auto keep = shared_from_this();
  transport_.reset();  // from here on no NIC touches a buffer
  parts_->scheduler.Close(*share_);
  files_.clear();
  timer_.cancel();
  if (kept_ >= 0 && parts_->disk) parts_->disk->Release(kept_);
  socket_->CloseAfterSending();
  if (on_end_) std::exchange(on_end_, {})();
}

void Session::OnFrame(const FrameHeader& header, std::span<const uint8_t> body) {
  if (ended_ || failed_) return;
  if (!greeted_) return OnHello(header, body);
  // One answer may have arrived although the socket has yet to say so: see Respond().
  if (++requests_ > parts_->config.max_requests + 1) return End("it sent more requests than it may");
  ++parts_->statistics.requests;
  const auto request = DecodeRequest(header.type, body);
  if (request) return std::visit([&](const auto& message) { On(header.id, message); }, *request);
  if (!std::exchange(misbehaved_, true))
    parts_->Log("client " + socket_->peer() + " sent an invalid request of type " +
                std::to_string(header.type));
  Respond(header.id, header.type, EINVAL, EmptyReply{});
}

void Session::OnHello(const FrameHeader& header, std::span<const uint8_t> body) {
  const auto hello = header.type == Hello::kType ? DecodeHello(body) : std::nullopt;
  if (!hello || hello->magic != kMagic) return End("it did not greet as a client does");
  Welcome welcome{
      .key = hello->key, .max_requests = parts_->config.max_requests, .read_only = parts_->config.read_only};
  welcome.refusal = Accept(*hello, welcome);
  socket_->Send(EncodeFrame(welcome));
  if (!welcome.refusal.empty()) return End(welcome.refusal);
  greeted_ = true;
  kept_ = parts_->disk->Keep(socket_->native_handle());
  ++parts_->statistics.clients;
  ProveRdma();
}

/// Connects the transport, or returns why not.
std::string Session::Accept(const Hello& hello, Welcome& welcome) {
  if (hello.version != kVersion) {
    return "its version of the protocol is " + std::to_string(hello.version) + ", the server's is " +
           std::to_string(kVersion) + ": use the same release on both sides";
  }
  if (!refusal_.empty()) return refusal_;
  try {
    transport_.emplace(parts_->config.device, parts_->config.transport, &parts_->loop);
  } catch (const std::exception& error) {
    return error.what();
  }
  const transport::Bound bound = transport_->Bind();
  if (!bound.status.ok()) return bound.status.Describe();
  welcome.url = bound.url;
  const transport::Status connected = transport_->Connect(hello.url);
  return connected.ok() ? "" : connected.Describe();
}

/// Notifies the client by RDMA, so that both know that it works before they rely on it.
void Session::ProveRdma() {
  timer_.cancel();
  // No byte is written, so no NIC looks at a key; but there has to be one for each of the peer's NICs.
  const transport::RdmaRemoteBuffer nowhere{nullptr, {.nics = transport::AccessKey::kMaxNics}, 0};
  transport_->Write(parts_->arena.View(parts_->arena.memory().data(), 0), nowhere, {.notify = true},
                    [self = shared_from_this()](const transport::Status& status) {
                      if (self->ended_) return;
                      if (!status.ok()) return self->End("RDMA with it does not work: " + status.Describe());
                      self->parts_->Log("client " + self->socket_->peer() + " connected");
                    });
}

void Session::Write(const transport::RdmaMemory::View& from, const transport::RdmaRemoteBuffer& to,
                    Done done) {
  if (!transport_) {
    asio::post(parts_->loop.context(), [done = std::move(done)] {
      done({transport::Code::kAborted, "it is gone"});
    });
    return;
  }
  transport_->Write(from, to, {.timeout = parts_->config.transfer_timeout}, std::move(done));
}

void Session::Read(const transport::RdmaMemory::MutableView& to, const transport::RdmaRemoteBuffer& from,
                   Done done) {
  if (!transport_) {
    asio::post(parts_->loop.context(), [done = std::move(done)] {
      done({transport::Code::kAborted, "it is gone"});
    });
    return;
  }
  transport_->Read(to, from, {.timeout = parts_->config.transfer_timeout}, std::move(done));
}

// Its requests under way are not answered, unless they are to blame: the client repeats them over its next
// connection.
void Session::Fail(const transport::Status& status) {
  if (failed_ || ended_) return;
  failed_ = true;
  parts_->Log("client " + socket_->peer() + ": " + status.Describe());
  transport_.reset();
  parts_->scheduler.Close(*share_);
}

void Session::Respond(uint64_t id, uint16_t type, int error, const Reply& reply) {
  if (error != 0) ++parts_->statistics.errors;
  if (ended_ || (failed_ && error != EFAULT)) return;
  // It counts until the kernel has taken its answer, so that one that does not read them is stopped.
  socket_->Send(EncodeReply(id, type, error, reply), [self = weak_from_this()] {
    if (const auto session = self.lock()) --session->requests_;
  });
}

std::shared_ptr<ServerFile> Session::FileOf(uint64_t handle) const {
  const auto found = files_.find(handle);
  return found == files_.end() ? nullptr : found->second;
}

/// Calls the file system in another thread, and answers with what it returns.
template <class Request, class Call>
void Session::InThread(uint64_t id, const Request& request, Call call) {
  asio::post(parts_->threads, [self = shared_from_this(), id, request, call = std::move(call)]() mutable {
    protocol::Answer answer = call(self->parts_->folder, request);
    auto& context = self->parts_->loop.context();
    // The last owner must not be this thread, which the session's parts wait for.
    asio::post(context, [self = std::move(self), id, answer = std::move(answer)] {
      self->Respond(id, Request::kType, answer.error, answer.reply);
    });
  });
}

void Session::On(uint64_t id, OpenRequest request) {
  if (files_.size() + opening_ >= parts_->config.max_files)
    return Respond(id, OpenRequest::kType, EMFILE, EmptyReply{});
  ++opening_;
  asio::post(parts_->threads, [self = shared_from_this(), id, request = std::move(request)]() mutable {
    const Folder& folder = self->parts_->folder;
    FolderFile file = folder.Open(request);
    DirectIo direct;
    if (file.error == 0 && S_ISREG(file.attributes.mode) && self->parts_->config.mode == IoMode::kAuto)
      direct = folder.OpenDirect(file.fd.get());
    auto& context = self->parts_->loop.context();
    asio::post(context, [self = std::move(self), id, flags = request.flags, file = std::move(file),
                         direct = std::move(direct)]() mutable {
      --self->opening_;
      if (self->ended_) return;
      if (file.error != 0) return self->Respond(id, OpenRequest::kType, file.error, EmptyReply{});
      if ((flags & kOpenTruncate) != 0) ++self->parts_->path.holes_made;
      const uint64_t handle = self->next_handle_++;
      self->files_[handle] = std::make_shared<ServerFile>(
          std::move(file.fd), flags & (kOpenRead | kOpenWrite), std::move(direct));
      self->Respond(id, OpenRequest::kType, 0, OpenReply{handle, file.attributes});
    });
  });
}

void Session::On(uint64_t id, const CloseRequest& request) {
  Respond(id, CloseRequest::kType, files_.erase(request.handle) != 0 ? 0 : EBADF, EmptyReply{});
}

/// Adds a transfer to the statistics.
///
/// @param access  kOpenRead or kOpenWrite
void Session::Count(const TransferResult& result, uint32_t access) {
  uint64_t holes = 0;
  for (const Range& hole : result.holes) holes += hole.bytes;
  FileServerStatistics& statistics = parts_->statistics;
  statistics.hole_bytes += holes;
  (access == kOpenRead ? statistics.bytes_read : statistics.bytes_written) += result.bytes - holes;
}

template <class TransferType, class Request>
void Session::StartTransfer(uint64_t id, const Request& request) {
  const auto file = FileOf(request.handle);
  constexpr uint32_t kAccess = std::is_same_v<Request, ReadRequest> ? kOpenRead : kOpenWrite;
  if (!file || !file->Allows(kAccess)) return Respond(id, Request::kType, EBADF, EmptyReply{});
  ++transfers_;
  const auto done = [self = shared_from_this(), id](const TransferResult& result) {
    --self->transfers_;
    if (!self->failed()) self->Count(result, kAccess);
    if constexpr (std::is_same_v<Request, ReadRequest>) {
      self->Respond(id, Request::kType, result.error, ReadReply{result.bytes, result.holes});
    } else {
      self->Respond(id, Request::kType, result.error, WriteReply{result.bytes});
    }
    if (self->failed_ && self->transfers_ == 0) self->End("its transport failed");
  };
  TransferRequest transfer{file, request.offset, request.buffer};
  if constexpr (std::is_same_v<Request, ReadRequest>) {
    if (request.sends_holes) transfer.holes = Holes::kSend;
  }
  std::make_shared<TransferType>(parts_->path, share_, shared_from_this(), std::move(transfer), done)
      ->Begin();
}

void Session::On(uint64_t id, const ReadRequest& request) { StartTransfer<ReadTransfer>(id, request); }

void Session::On(uint64_t id, const WriteRequest& request) {
  if (parts_->config.read_only) return Respond(id, WriteRequest::kType, EROFS, EmptyReply{});
  StartTransfer<WriteTransfer>(id, request);
}

void Session::On(uint64_t id, const SyncRequest& request) {
  const auto file = FileOf(request.handle);
  if (!file) return Respond(id, SyncRequest::kType, EBADF, EmptyReply{});
  parts_->disk->Sync(file->fd(), request.data_only, [self = shared_from_this(), file, id](int64_t result) {
    self->Respond(id, SyncRequest::kType, result < 0 ? static_cast<int>(-result) : 0, EmptyReply{});
  });
}

void Session::On(uint64_t id, const PunchHoleRequest& request) {
  if (parts_->config.read_only) return Respond(id, PunchHoleRequest::kType, EROFS, EmptyReply{});
  const auto file = FileOf(request.handle);
  if (!file) return Respond(id, PunchHoleRequest::kType, EBADF, EmptyReply{});
  parts_->disk->PunchHole(
      file->fd(), request.offset, request.bytes, [self = shared_from_this(), file, id](int64_t result) {
        ++self->parts_->path.holes_made;
        self->Respond(id, PunchHoleRequest::kType, result < 0 ? static_cast<int>(-result) : 0, EmptyReply{});
      });
}

void Session::On(uint64_t id, GetAttributesRequest request) {
  const auto file = FileOf(request.handle);
  if (request.handle != 0 && !file) return Respond(id, GetAttributesRequest::kType, EBADF, EmptyReply{});
  InThread(id, request, [file](const Folder& folder, const GetAttributesRequest& of) {
    return file ? folder.GetAttributes(file->fd()) : folder.GetAttributes(of.path);
  });
}

void Session::On(uint64_t id, ChangeAttributesRequest request) {
  const auto file = FileOf(request.handle);
  if (request.handle != 0 && !file) return Respond(id, ChangeAttributesRequest::kType, EBADF, EmptyReply{});
  ++parts_->path.holes_made;  // before: nobody learns of the new size earlier than of its holes
  InThread(id, request, [file](const Folder& folder, const ChangeAttributesRequest& of) {
    return file ? folder.ChangeAttributes(file->fd(), of.changes)
                : folder.ChangeAttributes(of.path, of.changes);
  });
}

void Session::On(uint64_t id, ListRequest request) {
  InThread(id, request, [](const Folder& folder, const ListRequest& of) { return folder.List(of); });
}
void Session::On(uint64_t id, MakeDirectoryRequest request) {
  InThread(id, request,
           [](const Folder& folder, const MakeDirectoryRequest& of) { return folder.MakeDirectory(of); });
}
void Session::On(uint64_t id, RemoveRequest request) {
  InThread(id, request, [](const Folder& folder, const RemoveRequest& of) { return folder.Remove(of); });
}
void Session::On(uint64_t id, RenameRequest request) {
  InThread(id, request, [](const Folder& folder, const RenameRequest& of) { return folder.Rename(of); });
}
void Session::On(uint64_t id, HardLinkRequest request) {
  InThread(id, request, [](const Folder& folder, const HardLinkRequest& of) { return folder.HardLink(of); });
}
void Session::On(uint64_t id, ReadLinkRequest request) {
  InThread(id, request, [](const Folder& folder, const ReadLinkRequest& of) { return folder.ReadLink(of); });
}
void Session::On(uint64_t id, const SpaceRequest& request) {
  InThread(id, request, [](const Folder& folder, const SpaceRequest&) { return folder.GetSpace(); });
}

}  // namespace warpverbs::inline v0_2::gpuio
