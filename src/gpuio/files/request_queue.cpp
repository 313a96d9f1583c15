#include "gpuio/files/request_queue.hpp"

#include <linux/fs.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace warpverbs::inline v0_2::gpuio {

using namespace protocol;

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMaxAttempts = 2;

/// Says whether a request whose connection ended without a reply may be sent once more.
///
/// The server may have carried it out, or may do so later, after others have been answered. That does no harm
/// to requests that change nothing, or that only make sure of something. A write may be repeated if the
/// server has closed the connection, because its writes have ended by then. Otherwise the old one may come
/// after the new one and what followed that.
///
/// @param by_server  the server has closed the connection
bool MayRepeat(const Request& request, bool by_server) {
  return std::visit(
      [&]<class M>(const M& message) {
        if constexpr (std::is_same_v<M, OpenRequest>) {
          return (message.flags & (kOpenExclusive | kOpenTruncate)) == 0;
        } else if constexpr (std::is_same_v<M, WriteRequest>) {
          return by_server;
        } else {
          return std::is_same_v<M, ReadRequest> || std::is_same_v<M, SyncRequest> ||
                 std::is_same_v<M, GetAttributesRequest> || std::is_same_v<M, ListRequest> ||
                 std::is_same_v<M, ReadLinkRequest> || std::is_same_v<M, SpaceRequest>;
        }
      },
      request);
}

/// Puts a handle into a message that has one.
void SetHandle(Request& message, uint64_t handle) {
  std::visit(
      [&](auto& fields) {
        if constexpr (requires { fields.handle; }) fields.handle = handle;
      },
      message);
}

/// Returns a path below `from` as one below `to`; empty: it is not below.
std::optional<std::string> Moved(const std::string& path, const std::string& from, const std::string& to) {
  if (path == from) return to;
  if (path.starts_with(from + "/")) return to + path.substr(from.size());
  return std::nullopt;
}

}  // namespace

RequestQueue::RequestQueue(const FileClientConfig& config, transport::EventLoop& loop)
    : config_(config), loop_(loop), reconnect_timer_(loop.context()), deadline_timer_(loop.context()) {}

void RequestQueue::Log(const std::string& line) const {
  if (config_.log) config_.log(line);
}

std::string RequestQueue::ServerName() const {
  const ServerAddress& server = config_.servers[server_];
  return server.host + ":" + std::to_string(server.port);
}

std::optional<ServerAddress> RequestQueue::Server() const {
  return ready_ ? std::optional(config_.servers[server_]) : std::nullopt;
}

void RequestQueue::Connect() {
  if (closed_) return;
  ++connection_number_;
  connection_ = std::make_shared<ServerConnection>(loop_, config_, config_.servers[server_]);
  // The connection calls nothing after Close(), which this calls before its end.
  connection_->Start(
      {.ready = [this](const Welcome& welcome) { OnReady(welcome); },
       .reply = [this](const FrameHeader& header, std::span<const uint8_t> body) { OnReply(header, body); },
       .end = [this](const std::string& reason, bool by_server) { OnEnd(reason, by_server); }});
}

void RequestQueue::OnReady(const Welcome& welcome) {
  Log("connected to " + ServerName() + (welcome.read_only ? ", which is read-only" : ""));
  ready_ = true;
  max_requests_ = welcome.max_requests;
  Pump();
}

void RequestQueue::Submit(ClientRequest request) {
  const auto pending = std::make_shared<ClientRequest>(std::move(request));
  if (closed_) return End(pending, ECANCELED);
  if (pending->needs_file && !pending->file) return End(pending, EBADF);
  StartDeadline(pending);
  queue_.push_back(pending);
  Pump();
}

void RequestQueue::Pump() {
  while (ready_ && sent_.size() < max_requests_ && !queue_.empty()) {
    const Pending request = std::move(queue_.front());
    queue_.pop_front();
    if (!request->ended) Send(request);
  }
}

void RequestQueue::Send(const Pending& request) {
  if (request->connection != 0 && request->connection != connection_number_) return End(request, EREMOTEIO);
  if (request->file) {
    if (request->file->connection != connection_number_) {
      request->file->waiting.push_back(request);
      return Reopen(request->file);
    }
    SetHandle(request->message, request->file->handle);
  }
  const uint64_t id = next_id_++;
  ++request->attempts;
  request->id = id;
  sent_[id] = request;
  connection_->Send(EncodeFrame(id, request->message));
}

void RequestQueue::Reopen(const std::shared_ptr<ClientFile>& file) {
  if (std::exchange(file->opening, true)) return;
  const auto request = std::make_shared<ClientRequest>(
      ClientRequest{.message = OpenRequest{.path = file->path, .flags = file->flags},
                    .done = [this, file](int error, const Reply& reply) { OnReopened(file, error, reply); }});
  StartDeadline(request);
  Send(request);
}

void RequestQueue::OnReopened(const std::shared_ptr<ClientFile>& file, int error, const Reply& reply) {
  file->opening = false;
  const auto waiting = std::exchange(file->waiting, {});
  if (const auto* const opened = error == 0 ? std::get_if<OpenReply>(&reply) : nullptr) {
    file->handle = opened->handle;
    file->connection = connection_number_;
    if (opened->attributes.inode != file->inode) {
      CloseHandle(*file);
      file->connection = 0;
      error = ENOENT;
    }
  }
  if (error != 0) {  // the path names another file now, or none
    for (const Pending& request : waiting) {
      if (!request->ended) End(request, error == ENOENT ? ESTALE : error);
    }
    return;
  }
  queue_.insert(queue_.begin(), waiting.begin(), waiting.end());
  if (file->closed) CloseHandle(*file);
  Pump();
}

OpenedFile RequestQueue::AddFile(const OpenRequest& request, const OpenReply& reply) {
  const auto file = std::make_shared<ClientFile>();
  file->id = next_file_++;
  file->path = request.path;
  file->flags = request.flags & ~uint32_t{kOpenCreate | kOpenExclusive | kOpenTruncate};
  file->inode = reply.attributes.inode;
  file->handle = reply.handle;
  file->connection = connection_number_;
  files_[file->id] = file;
  return {file->id, reply.attributes};
}

std::shared_ptr<ClientFile> RequestQueue::Find(uint64_t file) const {
  const auto found = files_.find(file);
  return found == files_.end() ? nullptr : found->second;
}

void RequestQueue::RemoveFile(uint64_t id) {
  const auto found = files_.find(id);
  if (found == files_.end()) return;
  const auto file = found->second;
  files_.erase(found);
  file->closed = true;
  if (file->connection == connection_number_) CloseHandle(*file);
}

/// Closes a handle behind the requests that are queued.
void RequestQueue::CloseHandle(const ClientFile& file) {
  Submit({.message = CloseRequest{file.handle}, .connection = file.connection, .done = [](int, Reply&) {}});
}

void RequestQueue::RenameFiles(const RenameRequest& request) {
  for (const auto& [id, file] : files_) {
    if (const auto path = Moved(file->path, request.from, request.to)) {
      file->path = *path;
    } else if (request.flags == RENAME_EXCHANGE) {
      file->path = Moved(file->path, request.to, request.from).value_or(file->path);
    }
  }
}

void RequestQueue::OnReply(const FrameHeader& header, std::span<const uint8_t> body) {
  const auto found = sent_.find(header.id);
  if (found == sent_.end()) return OnEnd("it answered a request that is not under way", false);
  const Pending request = found->second;
  auto answer = header.type == TypeOf(request->message) ? DecodeReply(request->message, body) : std::nullopt;
  if (!answer) return OnEnd("it sent an invalid answer", false);
  sent_.erase(found);
  failures_ = 0;
  End(request, answer->error, std::move(answer->reply));
  Pump();
}

/// Ends the connection first: once its transport is gone, the server touches no buffer. Only then requests
/// end.
void RequestQueue::OnEnd(const std::string& reason, bool by_server) {
  Log((ready_ ? "lost " : "cannot connect to ") + ServerName() + ": " + reason);
  connection_->Close();
  ready_ = false;
  for (const auto& [id, file] : files_) {
    if (file->connection == connection_number_ && file->writes != file->synced_writes)
      file->lost_writes = true;
    file->synced_writes = file->writes;
  }
  const auto sent = std::exchange(sent_, {});
  std::vector<Pending> again, over;
  for (const auto& [id, request] : sent) {
    const bool repeats = request->attempts < kMaxAttempts && MayRepeat(request->message, by_server);
    (repeats ? again : over).push_back(request);
  }
  queue_.insert(queue_.begin(), again.begin(), again.end());
  ++failures_;
  server_ = (server_ + 1) % config_.servers.size();
  ConnectLater();
  for (const Pending& request : over) End(request, EREMOTEIO);
}

/// Tries all servers at once after each other, then waits longer and longer.
void RequestQueue::ConnectLater() {
  const size_t rounds = failures_ / config_.servers.size();
  const auto delay =
      rounds == 0
          ? std::chrono::milliseconds(0)
          : std::chrono::milliseconds(std::min<size_t>(size_t{20} << std::min<size_t>(rounds, 6), 1000));
  reconnect_timer_.expires_after(delay);
  reconnect_timer_.async_wait([self = shared_from_this()](const std::error_code& error) {
    if (!error) self->Connect();
  });
}

void RequestQueue::StartDeadline(const Pending& request) {
  request->deadline = Clock::now() + config_.timeout;
  request->place = deadlines_.insert(deadlines_.end(), request);
  WatchDeadlines();
}

void RequestQueue::WatchDeadlines() {
  if (deadlines_.empty() || closed_ || std::exchange(watching_, true)) return;
  deadline_timer_.expires_at(deadlines_.front()->deadline);
  deadline_timer_.async_wait([self = shared_from_this()](const std::error_code& error) {
    if (!error && !self->closed_) self->OnDeadline();
  });
}

void RequestQueue::OnDeadline() {
  watching_ = false;
  const auto now = Clock::now();
  std::vector<Pending> late;
  for (const Pending& request : deadlines_) {
    if (request->deadline > now) break;
    late.push_back(request);
  }
  bool resets = false;
  for (const Pending& request : late) {
    request->attempts = kMaxAttempts;
    if (sent_.contains(request->id)) {
      resets = true;
    } else if (!request->ended) {
      End(request, EREMOTEIO);
    }
  }
  std::erase_if(queue_, [](const Pending& request) { return request->ended; });
  if (resets) OnEnd("it did not answer in time", false);
  WatchDeadlines();
}

void RequestQueue::End(const Pending& request, int error, Reply reply) {
  request->ended = true;
  if (request->place) deadlines_.erase(*std::exchange(request->place, std::nullopt));
  const auto done = std::move(request->done);
  done(error, reply);
}

void RequestQueue::Close() {
  if (std::exchange(closed_, true)) return;
  if (connection_) connection_->Close();
  ready_ = false;
  reconnect_timer_.cancel();
  deadline_timer_.cancel();
  std::vector<Pending> all(queue_.begin(), queue_.end());
  for (const auto& [id, request] : sent_) all.push_back(request);
  all.insert(all.end(), deadlines_.begin(), deadlines_.end());
  queue_.clear();
  sent_.clear();
  for (const Pending& request : all) {
    if (!request->ended) End(request, ECANCELED);
  }
  files_.clear();
}

}  // namespace warpverbs::inline v0_2::gpuio
