#include "gpuio/server/session.hpp"

#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <asio/post.hpp>
#include <cerrno>
#include <exception>
#include <utility>
#include <variant>
#include <vector>

#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::gpuio {

using namespace protocol;

namespace {

constexpr unsigned kThreads = 8;
constexpr size_t kFewUnsentBytes = 64 << 10;

/// Returns how many files clients may have open: each takes two descriptors, and half of all is for sockets
/// and for the files that a request opens for a moment.
size_t FilesOfTheLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = 1024;
  return static_cast<size_t>(std::min<rlim_t>(limit.rlim_cur, 1 << 30) / 4);
}

std::unique_ptr<Disk> ChooseDisk(const FileServerConfig& config, transport::EventLoop& loop,
                                 std::span<uint8_t> memory) {
  if (config.engine != IoEngine::kThreads) {
    try {
      return MakeUringDisk(loop.context(), memory, config.max_clients);
    } catch (const host::Error&) {
      if (config.engine == IoEngine::kUring) throw;
    }
  }
  return MakeThreadDisk(loop.context());
}

std::unique_ptr<Disk> MakeDisk(const FileServerConfig& config, transport::EventLoop& loop,
                               std::span<uint8_t> memory) {
  auto disk = ChooseDisk(config, loop, memory);
  return config.wrap_disk ? config.wrap_disk(std::move(disk)) : std::move(disk);
}

}  // namespace

ServerParts::ServerParts(transport::EventLoop& event_loop, const FileServerConfig& server_config)
    : config(server_config),
      loop(event_loop),
      threads(kThreads),
      jobs(loop.context(), threads, kThreads),
      folder(config.folder, config.read_only),
      arena(config.memory, config.device, config.transport.max_nics),
      scheduler({.free = [this] { return arena.free(); },
                 .take = [this] { return arena.Take(); },
                 .put = [this](uint8_t* buffer) { arena.Return(buffer); }}),
      disk(MakeDisk(config, loop, arena.memory())),
      path{arena, scheduler, *disk},
      max_files(FilesOfTheLimit()),
      max_unsent_bytes(std::max(config.memory, config.max_requests * kMaxFrameBytes)) {}

ServerParts::~ServerParts() {
  disk.reset();
  threads.join();
}

void ServerParts::Log(const std::string& line) const {
  if (config.log) config.log(line);
}

bool ServerParts::MayLogStranger() {
  const auto now = std::chrono::steady_clock::now();
  if (now - stranger_minute_ >= std::chrono::minutes(1)) {
    stranger_minute_ = now;
    stranger_lines_ = 0;
  }
  return stranger_lines_++ < 20;
}

void ServerParts::EndHoarders() {
  while (true) {
    size_t unsent = 0;
    Session* most = nullptr;
    for (Session* const client : clients) {
      if (client->failed()) continue;  // it ends when the disk is done with it
      unsent += client->unsent_bytes();
      if (most == nullptr || client->unsent_bytes() > most->unsent_bytes()) most = client;
    }
    if (unsent <= max_unsent_bytes) return;
    most->End("it does not read its answers");
  }
}

Session::Session(std::shared_ptr<ServerParts> parts, asio::ip::tcp::socket socket)
    : parts_(std::move(parts)),
      socket_(std::make_shared<FramedSocket>(std::move(socket))),
      timer_(parts_->loop.context()) {}

void Session::Start(OnEnd on_end) {
  on_end_ = std::move(on_end);
  EndUnlessCancelledWithin(parts_->config.greeting_timeout, "it did not greet as a client does");
  // The socket's callbacks do not own this: Close() drops them, and the server owns this until then.
  socket_->Start([this](const FrameHeader& header, std::span<const uint8_t> body) { OnFrame(header, body); },
                 [this](const std::string& reason, bool) { End(reason); });
}

void Session::EndUnlessCancelledWithin(std::chrono::milliseconds time, const std::string& reason) {
  timer_.expires_after(time);
  timer_.async_wait([self = weak_from_this(), reason](const std::error_code& error) {
    const auto session = self.lock();
    if (!error && session) session->End(reason);
  });
}

void Session::End(const std::string& reason) {
  if (gone_) return;
  if (!greeted_) {
    ++parts_->statistics.strangers;
    if (parts_->MayLogStranger()) parts_->Log("refused " + socket_->peer() + ": " + reason);
  } else {
    parts_->Log("client " + socket_->peer() + " left: " + reason);
  }
  const auto keep = shared_from_this();
  Stop();
  if (work_ == 0) Close();
}

void Session::Stop() {
  if (gone_.exchange(true)) return;
  const auto keep = shared_from_this();
  ++work_;             // transfers that end here do not close yet
  transport_.reset();  // from here on no NIC touches a buffer
  parts_->scheduler.Close(*share_);
  files_.clear();
  timer_.cancel();
  --work_;
}

/// Ends something that the disk or a thread did for the client.
void Session::EndWork() {
  if (--work_ == 0 && gone_) Close();
}

void Session::Close() {
  if (std::exchange(ended_, true)) return;
  const auto keep = shared_from_this();
  Stop();
  if (kept_ >= 0 && parts_->disk) parts_->disk->Release(kept_);
  parts_->clients.erase(this);
  // The last answers get some seconds, unless the client does not read: nobody counts them any more.
  if (unsent_bytes_ <= kFewUnsentBytes) {
    socket_->CloseAfterSending();
  } else {
    socket_->Close();
  }
  parts_->unsent_bytes -= std::exchange(unsent_bytes_, 0);
  jobs_->Clear();  // they own this
  if (on_end_) std::exchange(on_end_, {})();
}

void Session::OnFrame(const FrameHeader& header, std::span<const uint8_t> body) {
  if (gone_) return;
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
  parts_->clients.insert(this);
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
  if (parts_->clients.size() >= parts_->config.max_clients) {
    return "the server has " + std::to_string(parts_->config.max_clients) +
           " clients, the most that it takes: raise --clients";
  }
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
                      if (self->gone_) return;
                      if (!status.ok()) return self->End("RDMA with it does not work: " + status.Describe());
                      self->parts_->Log("client " + self->socket_->peer() + " connected");
                    });
}

void Session::ReportGone(Done done) {
  asio::post(parts_->loop.context(), [done = std::move(done)] {
    done({transport::Code::kAborted, "it is gone"});
  });
}

void Session::Write(const transport::RdmaMemory::View& from, const transport::RdmaRemoteBuffer& to,
                    Done done) {
  if (!transport_) return ReportGone(std::move(done));
  transport_->Write(from, to, {.timeout = parts_->config.transfer_timeout}, std::move(done));
}

void Session::Read(const transport::RdmaMemory::MutableView& to, const transport::RdmaRemoteBuffer& from,
                   Done done) {
  if (!transport_) return ReportGone(std::move(done));
  transport_->Read(to, from, {.timeout = parts_->config.transfer_timeout}, std::move(done));
}

// Its requests under way are not answered, unless they are to blame: the client repeats them over its next
// connection. They end before the connection does.
void Session::Fail(const transport::Status& status) {
  if (gone_) return;
  failed_ = true;
  parts_->Log("client " + socket_->peer() + " left: its transport failed: " + status.Describe());
  Stop();
}

void Session::Respond(uint64_t id, uint16_t type, int error, const Reply& reply) {
  if (error != 0) ++parts_->statistics.errors;
  if (ended_ || (gone_ && !(failed_ && error == EFAULT))) return;
  // It counts until the kernel has taken its answer, so that one that does not read them is stopped.
  std::vector<uint8_t> frame = EncodeReply(id, type, error, reply);
  const size_t bytes = frame.size();
  unsent_bytes_ += bytes;
  parts_->unsent_bytes += bytes;
  socket_->Send(std::move(frame), [self = weak_from_this(), bytes] {
    if (const auto session = self.lock()) session->OnSent(bytes);
  });
  if (parts_->unsent_bytes <= parts_->max_unsent_bytes) return;
  // Others' transports do not end within the callbacks of this one's.
  asio::post(parts_->loop.context(), [parts = std::weak_ptr(parts_)] {
    if (const auto alive = parts.lock()) alive->EndHoarders();
  });
}

void Session::OnSent(size_t bytes) {
  --requests_;
  if (ended_) return;
  unsent_bytes_ -= bytes;
  parts_->unsent_bytes -= bytes;
}

/// Keeps a file for the client, until it closes it or is gone. A thread closes it: that may take long.
uint64_t Session::AddFile(host::FileDescriptor file, uint32_t access, DirectIo direct) {
  const auto close_in_thread = [parts = std::weak_ptr(parts_)](const ServerFile* closed) {
    std::shared_ptr<const ServerFile> owner(closed);
    const auto alive = parts.lock();
    if (!alive) return;
    --alive->files;
    asio::post(alive->threads, [owner = std::move(owner)] {});
  };
  ++parts_->files;
  const uint64_t handle = next_handle_++;
  files_[handle] = std::shared_ptr<ServerFile>(new ServerFile(std::move(file), access, std::move(direct)),
                                               close_in_thread);
  return handle;
}

std::shared_ptr<ServerFile> Session::FileOf(uint64_t handle) const {
  const auto found = files_.find(handle);
  return found == files_.end() ? nullptr : found->second;
}

void Session::InThread(std::function<void()> call, std::function<void()> then) {
  ++work_;
  const auto self = shared_from_this();
  parts_->jobs.Add(jobs_, {.call =
                               [self, call = std::move(call)] {
                                 if (!self->gone_) call();
                               },
                           .then =
                               [self, then = std::move(then)] {
                                 then();
                                 self->EndWork();
                               }});
}

/// Calls the file system in another thread, and answers with what it returns.
template <class Request, class Call>
void Session::AnswerInThread(uint64_t id, const Request& request, Call call) {
  const auto answer = std::make_shared<protocol::Answer>();
  InThread([this, request, call = std::move(call),
            answer] { *answer = call(static_cast<const Folder&>(parts_->folder), request); },
           [this, id, answer] { Respond(id, Request::kType, answer->error, answer->reply); });
}

void Session::On(uint64_t id, OpenRequest request) {
  struct Opened {
    FolderFile file{};
    DirectIo direct{};
  };
  // As with buffers, a client has at most as many files as are left for others.
  const size_t own = files_.size() + opening_;
  if (own >= parts_->config.max_files || parts_->files + own >= parts_->max_files)
    return Respond(id, OpenRequest::kType, EMFILE, EmptyReply{});
  ++opening_;
  ++parts_->files;
  const auto opened = std::make_shared<Opened>();
  const uint32_t flags = request.flags;
  InThread(
      [this, request = std::move(request), opened] {
        opened->file = parts_->folder.Open(request);
        const FolderFile& file = opened->file;
        if (file.error == 0 && S_ISREG(file.attributes.mode) && parts_->config.mode == IoMode::kAuto)
          opened->direct = parts_->folder.OpenDirect(file.fd.get());
      },
      [this, id, flags, opened] {
        --opening_;
        --parts_->files;
        if (gone_) return;
        if ((flags & kOpenTruncate) != 0) ++parts_->path.holes_made;
        FolderFile& file = opened->file;
        if (file.error != 0) return Respond(id, OpenRequest::kType, file.error, EmptyReply{});
        const uint64_t handle =
            AddFile(std::move(file.fd), flags & (kOpenRead | kOpenWrite), std::move(opened->direct));
        Respond(id, OpenRequest::kType, 0, OpenReply{handle, file.attributes});
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
  ++work_;
  const auto done = [self = shared_from_this(), id](const TransferResult& result) {
    if (!self->failed()) self->Count(result, kAccess);
    if constexpr (std::is_same_v<Request, ReadRequest>) {
      self->Respond(id, Request::kType, result.error, ReadReply{result.bytes, result.holes});
    } else {
      self->Respond(id, Request::kType, result.error, WriteReply{result.bytes});
    }
    self->EndWork();
  };
  TransferRequest transfer{file, request.offset, request.buffer};
  if constexpr (std::is_same_v<Request, ReadRequest>) {
    transfer.holes = request.holes;
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
  ++work_;
  parts_->disk->Sync(file->fd(), request.data_only, [self = shared_from_this(), file, id](int64_t result) {
    self->Respond(id, SyncRequest::kType, result < 0 ? static_cast<int>(-result) : 0, EmptyReply{});
    self->EndWork();
  });
}

void Session::On(uint64_t id, const PunchHoleRequest& request) {
  if (parts_->config.read_only) return Respond(id, PunchHoleRequest::kType, EROFS, EmptyReply{});
  const auto file = FileOf(request.handle);
  if (!file) return Respond(id, PunchHoleRequest::kType, EBADF, EmptyReply{});
  ++work_;
  parts_->disk->PunchHole(
      file->fd(), request.offset, request.bytes, [self = shared_from_this(), file, id](int64_t result) {
        ++self->parts_->path.holes_made;
        self->Respond(id, PunchHoleRequest::kType, result < 0 ? static_cast<int>(-result) : 0, EmptyReply{});
        self->EndWork();
      });
}

void Session::On(uint64_t id, GetAttributesRequest request) {
  const auto file = FileOf(request.handle);
  if (request.handle != 0 && !file) return Respond(id, GetAttributesRequest::kType, EBADF, EmptyReply{});
  AnswerInThread(id, request, [file](const Folder& folder, const GetAttributesRequest& of) {
    return file ? folder.GetAttributes(file->fd()) : folder.GetAttributes(of.path);
  });
}

void Session::On(uint64_t id, ChangeAttributesRequest request) {
  const auto file = FileOf(request.handle);
  if (request.handle != 0 && !file) return Respond(id, ChangeAttributesRequest::kType, EBADF, EmptyReply{});
  const auto answer = std::make_shared<protocol::Answer>();
  // A read that looks at the file before, while or after it is truncated may know too few holes. The first
  // count is for clients that see the new size before this answer.
  ++parts_->path.holes_made;
  InThread(
      [this, file, answer, of = std::move(request)] {
        const Folder& folder = parts_->folder;
        *answer = file ? folder.ChangeAttributes(file->fd(), of.changes)
                       : folder.ChangeAttributes(of.path, of.changes);
      },
      [this, id, answer] {
        ++parts_->path.holes_made;
        Respond(id, ChangeAttributesRequest::kType, answer->error, answer->reply);
      });
}

void Session::On(uint64_t id, ListRequest request) {
  AnswerInThread(id, request, [](const Folder& folder, const ListRequest& of) { return folder.List(of); });
}
void Session::On(uint64_t id, MakeDirectoryRequest request) {
  AnswerInThread(id, request, [](const Folder& folder, const MakeDirectoryRequest& of) {
    return folder.MakeDirectory(of);
  });
}
void Session::On(uint64_t id, RemoveRequest request) {
  AnswerInThread(id, request,
                 [](const Folder& folder, const RemoveRequest& of) { return folder.Remove(of); });
}
void Session::On(uint64_t id, RenameRequest request) {
  AnswerInThread(id, request,
                 [](const Folder& folder, const RenameRequest& of) { return folder.Rename(of); });
}
void Session::On(uint64_t id, HardLinkRequest request) {
  AnswerInThread(id, request,
                 [](const Folder& folder, const HardLinkRequest& of) { return folder.HardLink(of); });
}
void Session::On(uint64_t id, ReadLinkRequest request) {
  AnswerInThread(id, request,
                 [](const Folder& folder, const ReadLinkRequest& of) { return folder.ReadLink(of); });
}
void Session::On(uint64_t id, const SpaceRequest& request) {
  AnswerInThread(id, request, [](const Folder& folder, const SpaceRequest&) { return folder.GetSpace(); });
}

}  // namespace warpverbs::inline v0_2::gpuio
