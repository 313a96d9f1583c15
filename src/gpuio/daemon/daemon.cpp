#include "gpuio/daemon/daemon.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "gpuio/control/log.hpp"
#include "gpuio/control/messages.hpp"
#include "gpuio/control/mount.hpp"
#include "gpuio/control/owned_file.hpp"
#include "gpuio/control/packet_socket.hpp"
#include "gpuio/daemon/attached_ring.hpp"
#include "gpuio/daemon/buffer_table.hpp"
#include "gpuio/daemon/client.hpp"
#include "gpuio/daemon/control_folder.hpp"
#include "gpuio/daemon/io_result.hpp"
#include "gpuio/daemon/submit_semaphore.hpp"
#include "warpverbs/gpuio/hf3fs_usrbio.h"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

constexpr std::chrono::milliseconds kAcceptPause(100);
constexpr std::chrono::seconds kTidyPeriod(10);
constexpr size_t kMaxClients = 4096, kMaxNamesOfClient = 65536, kMaxFilesOfClient = 65536;

}  // namespace

std::string DaemonStatistics::ToJson() const {
  std::string line;
  const auto put = [&line](const char* name, uint64_t value) {
    line += (line.empty() ? "{\"" : ", \"") + std::string(name) + "\": " + std::to_string(value);
  };
  put("clients", clients);
  put("host_buffers", host_buffers);
  put("gpu_buffers", gpu_buffers);
  put("rings", rings);
  put("files", files);
  put("registrations", registrations);
  put("in_flight", in_flight);
  put("reads", reads);
  put("writes", writes);
  put("failures", failures);
  put("bytes_read", bytes_read);
  put("bytes_written", bytes_written);
  put("bytes_zeroed", bytes_zeroed);
  put("refused_clients", refused_clients);
  put("broken_rings", broken_rings);
  return line + "}";
}

class Daemon::Impl : public std::enable_shared_from_this<Daemon::Impl> {
 public:
  /// @param folder  owned by the daemon if the control folder is not the caller's
  Impl(const DaemonConfig& config, transport::EventLoop& loop, FileStore& files, ControlSpace& control,
       std::unique_ptr<ControlSpace> folder)
      : config_(config),
        loop_(loop),
        files_(files),
        folder_(std::move(folder)),
        control_(control),
        listener_(loop.executor()),
        timer_(loop.executor()),
        accept_timer_(loop.executor()),
        tidy_timer_(loop.executor()),
        buffers_(std::make_shared<BufferTable>(config.device, loop)) {}

  void Start() {
    host::FileDescriptor other, listening;
    if (ConnectPackets(config_.socket_path, other) == 0) {
      throw host::Error("listen at", config_.socket_path, "another warpverbs-gpuiod does",
                        "Stop that one first, or name another path with --socket", EADDRINUSE);
    }
    unlink(config_.socket_path.c_str());  // of a daemon that was killed
    if (const int error = ListenForPackets(config_.socket_path, listening); error != 0) {
      throw host::Error::FromErrno("listen at", config_.socket_path, error,
                                   "Name a path of at most 107 bytes in an existing folder with --socket");
    }
    listener_.assign(fcntl(listening.get(), F_DUPFD_CLOEXEC, 0));
    std::array<std::string, ControlSpace::kPriorities.size()> submit;
    for (std::string& path : submit) {
      path = semaphores_.emplace_back(MakeSemaphore())->path();
    }
    control_.Open(config_.socket_path, submit, [this](const std::string& name) { Remove(name); });
    Accept();
    Tidy();
  }

  /// Ends everything that refers to this, but for callbacks of the files.
  void Stop() {
    is_stopped_ = true;
    semaphores_.clear();
    listener_.close();
    timer_.cancel();
    accept_timer_.cancel();
    tidy_timer_.cancel();
    // Files of /dev/shm stay: their applications live, and publish them to the next daemon.
    for (const auto& [id, client] : clients_) {
      for (const auto& [name, attached] : client->attached) control_.Unlink(name, attached.target);
    }
    buffers_->Stop();
    while (!rings_.empty()) Remove(std::string(rings_.begin()->first));
    while (!clients_.empty()) {
      const ClientPtr client = clients_.begin()->second;
      client->attached.clear();
      Drop(client, "");
    }
    unlink(config_.socket_path.c_str());
    control_.Close();  // the next daemon may come, though callbacks keep this
  }

  DaemonStatistics Statistics() const {
    DaemonStatistics now = statistics_;
    now.clients = clients_.size();
    buffers_->Count(now);
    now.rings = rings_.size();
    for (const auto& [id, client] : clients_) now.files += client->files.size();
    return now;
  }

 private:
  using ClientPtr = std::shared_ptr<Client>;

  /// Makes a semaphore that wakes the loop.
  std::unique_ptr<SubmitSemaphore> MakeSemaphore() {
    return std::make_unique<SubmitSemaphore>(
        [weak = weak_from_this(), &loop = loop_, pending = is_pump_posted_] {
          if (pending->exchange(true)) return;
          asio::post(loop.executor(), [weak, pending] {
            *pending = false;
            if (const auto self = weak.lock()) self->Pump();
          });
        });
  }

  struct NamedRing {
    std::weak_ptr<Client> owner;
    std::shared_ptr<AttachedRing> ring;
  };

  /// Removes the files of applications that ended while no daemon knew of them, now and then.
  void Tidy() {
    RemoveAbandonedFiles();
    tidy_timer_.expires_after(kTidyPeriod);
    tidy_timer_.async_wait([weak = weak_from_this()](const std::error_code& error) {
      const auto self = weak.lock();
      if (!error && self != nullptr && !self->is_stopped_) self->Tidy();
    });
  }

  // Clients.

  void Accept() {
    listener_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [weak = weak_from_this()](const std::error_code& error) {
                           const auto self = weak.lock();
                           if (error || self == nullptr || self->is_stopped_) return;
                           if (self->AcceptAll()) return self->Accept();
                           self->accept_timer_.expires_after(kAcceptPause);
                           self->accept_timer_.async_wait([weak](const std::error_code& failure) {
                             const auto later = weak.lock();
                             if (!failure && later != nullptr && !later->is_stopped_) later->Accept();
                           });
                         });
  }

  /// @return  false: there are too many files, and the application still waits
  bool AcceptAll() {
    while (true) {
      const int accepted = accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (accepted < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
      if (accepted < 0 && errno == EAGAIN) return true;
      if (accepted < 0) {
        Log(LogLevel::kError,
            "Cannot accept an application: " + host::Error::DescribeErrno(errno) + ". Raise ulimit -n.");
        return false;
      }
      asio::posix::stream_descriptor socket(loop_.executor());
      std::error_code failure;
      socket.assign(accepted, failure);
      if (failure) {
        close(accepted);
        Log(LogLevel::kError,
            "Cannot wait for an application: " + failure.message() + ". Raise fs.epoll.max_user_watches.");
        return false;
      }
      ucred peer{};
      socklen_t bytes = sizeof peer;
      if (getsockopt(accepted, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 ||
          clients_.size() >= kMaxClients) {
        ++statistics_.refused_clients;
        continue;
      }
      auto client = std::make_shared<Client>(std::move(socket), peer.uid, peer.pid);
      clients_.emplace(client.get(), client);
      Log(LogLevel::kInfo, "process " + std::to_string(peer.pid) + " has connected");
      Receive(client);
    }
  }

  void Receive(const ClientPtr& client) {
    client->socket.async_wait(asio::posix::stream_descriptor::wait_read,
                              [weak = weak_from_this(), client](const std::error_code& error) {
                                const auto self = weak.lock();
                                if (error || self == nullptr || !self->clients_.contains(client.get()))
                                  return;
                                if (self->ReceiveAll(client)) self->Receive(client);
                              });
  }

  /// @return  false: the client is dropped
  bool ReceiveAll(const ClientPtr& client) {
    constexpr int kMaxMessages = 64;  // then others get their turn
    for (int i = 0; i < kMaxMessages; ++i) {
      Packet packet;
      const int error = ReceivePacket(client->socket.native_handle(), packet);
      if (error == EAGAIN) return true;
      if (error == EPIPE) return Drop(client, "");
      if (error != 0) return Drop(client, host::Error::DescribeErrno(error));
      std::optional<ControlRequest> request = ControlRequest::Decode(packet.bytes);
      if (!request) return Drop(client, "it sent no message of this version");
      const uint32_t sequence = request->sequence;
      const std::weak_ptr<Client> weak_client = client;
      const Reply reply = [weak = weak_from_this(), weak_client, sequence](int result) {
        const auto self = weak.lock();
        const auto waiting = weak_client.lock();
        if (self == nullptr || waiting == nullptr || !self->clients_.contains(waiting.get())) return;
        const ControlReply message{.sequence = sequence, .error = static_cast<uint32_t>(result)};
        if (const int failure = SendPacket(waiting->socket.native_handle(), message.Encode()); failure != 0)
          self->Drop(waiting, host::Error::DescribeErrno(failure));
      };
      try {
        std::visit([&](auto& body) { Handle(client, body, std::move(packet.file), reply); }, request->body);
      } catch (const std::exception& failure) {
        return Drop(client, failure.what());  // memory has run out: the others go on
      }
      if (!clients_.contains(client.get())) return false;
    }
    return true;
  }

  /// Forgets a client and all that it had.
  ///
  /// @param reason  empty: it has closed its connection
  bool Drop(const ClientPtr& client, const std::string& reason) {
    if (clients_.erase(client.get()) == 0) return false;
    const std::string process = "process " + std::to_string(client->process);
    if (reason.empty()) {
      Log(LogLevel::kInfo, process + " has gone");
    } else {
      ++statistics_.refused_clients;
      Log(LogLevel::kError,
          "Cannot serve " + process + ": " + reason + ". Check that it uses this version of the library.");
    }
    client->socket.close();
    for (const auto& [name, attached] : std::exchange(client->attached, {}))
      RemoveOrphan(client, name, attached);
    for (const auto& [key, file] : client->files) files_.Close(file.file);
    client->files.clear();
    client->published.clear();
    return false;
  }

  /// Removes what a client has left behind: the object, its link, and its file of /dev/shm.
  void RemoveOrphan(const ClientPtr& client, const std::string& name, const AttachedName& attached) {
    control_.Unlink(name, attached.target);
    const std::string file = ShmNameOf(std::string_view(attached.target));
    const std::string path = "/dev/shm/" + file;
    struct stat status {};
    const bool is_same = attached.inode != 0 && lstat(path.c_str(), &status) == 0 &&
                         status.st_ino == attached.inode && status.st_dev == attached.device;
    if (file.starts_with(kBufferFilePrefix) && is_same) unlink(path.c_str());
    if (Owns(client, name)) Remove(name);
  }

  // Requests.

  using Reply = std::function<void(int error)>;

  void Handle(const ClientPtr& client, PublishRequest& request, host::FileDescriptor file,
              const Reply& reply) {
    const std::optional<LinkName> name = LinkName::Parse(request.name);
    if (!name->gpu) return reply(EINVAL);
    if (client->published.size() >= kMaxNamesOfClient) return reply(ENOSPC);
    try {
      host::SharedMemory memory{.info = host::SharedMemoryInfo::FromBytes(request.memory),
                                .file = std::move(file)};
      client->published[request.name] = {
          .memory = std::move(memory), .ipc_handle = request.ipc_handle, .ipc_offset = request.offset};
    } catch (const host::Error& error) {
      Log(LogLevel::kError, error.what());
      return reply(EINVAL);
    }
    reply(0);
  }

  void Handle(const ClientPtr& client, AttachRequest& request, host::FileDescriptor, const Reply& reply) {
    const std::optional<LinkName> name = LinkName::Parse(request.name);
    AttachedName attached;
    int error = control_.ReadLink(request.name, attached.target);
    const std::weak_ptr<Client> weak_client = client;
    const auto done = [weak = weak_from_this(), weak_client, link = request.name, target = attached.target,
                       reply](int result) {
      const auto self = weak.lock();
      const auto waiting = weak_client.lock();
      if (self != nullptr && waiting != nullptr) self->EndAttach(waiting, link, target, result, reply);
    };
    // An application that has lost patience asks again.
    const int awaited = error == 0 ? buffers_->Await(client, request.name, done) : ENOENT;
    if (awaited == 0) return;
    if (awaited != ENOENT) return reply(awaited);
    if (error == 0 && Owns(client, request.name)) return reply(0);
    if (error == 0 && (buffers_->Has(request.name) || rings_.contains(request.name))) error = EEXIST;
    if (error == 0 && !name->ring && buffers_->HasId(name->id)) error = EEXIST;
    if (error == 0 && client->attached.size() >= kMaxNamesOfClient) error = ENOSPC;
    if (error != 0) return reply(error);
    const BufferName buffer{.owner = client, .link = request.name, .id = name->id};
    error = name->gpu ? AttachGpu(client, buffer, *name, attached, done)
                      : AttachFile(client, buffer, *name, attached, done);
    if (error != 0) done(error);
  }

  /// @return  0: `done` is called, or has been; else an errno value
  int AttachFile(const ClientPtr& client, const BufferName& name, const LinkName& parsed,
                 AttachedName attached, const BufferTable::Done& done) {
    int error = 0;
    std::shared_ptr<GuardedMapping> mapping = MapShmFile(attached.target, client->user, error);
    struct stat status {};
    if (error == 0 && fstat(mapping->file().get(), &status) != 0) error = errno;
    if (error == 0 && parsed.ring) attached.ring_entries = RingEntries(mapping->size());
    if (error == 0 && !client->HasRoom(attached.ring_entries)) error = ENOSPC;
    if (error == 0 && parsed.ring) error = AttachRing(client, name.link, parsed, mapping);
    if (error != 0) return error;
    attached.device = status.st_dev;
    attached.inode = status.st_ino;
    client->attached[name.link] = attached;  // goes with the client from here on
    if (parsed.ring) {
      done(0);
    } else {
      buffers_->AttachHost(name, std::move(mapping), parsed.block_bytes, done);
    }
    return 0;
  }

  /// @return  as above
  int AttachGpu(const ClientPtr& client, const BufferName& name, const LinkName& parsed,
                const AttachedName& attached, const BufferTable::Done& done) {
    auto node = client->published.extract(name.link);
    if (node.empty()) return ENOENT;
    PublishedMemory& published = node.mapped();
    const std::optional<GpuUri> uri = GpuUri::Parse(attached.target);
    if (!uri || uri->device != *parsed.gpu || uri->bytes != published.memory.info.bytes) return EINVAL;
    client->attached[name.link] = attached;
    buffers_->AttachGpu(name, std::move(published), done);
    return 0;
  }

  void EndAttach(const ClientPtr& client, const std::string& link, const std::string& target, int error,
                 const Reply& reply) {
    std::string present;
    if (error == 0) error = control_.ReadLink(link, present);  // it may have been removed meanwhile
    if (error == 0 && present != target) error = EEXIST;
    if (error == 0 && !Owns(client, link)) error = ECANCELED;  // the end of another's wait has removed it
    if (error != 0) {
      client->attached.erase(link);
      if (Owns(client, link)) Remove(link);
    }
    Log(LogLevel::kInfo, "process " + std::to_string(client->process) + " attaches " + link + ": " +
                             (error == 0 ? "done" : host::Error::DescribeErrno(error)));
    reply(error);
  }

  int AttachRing(const ClientPtr& client, const std::string& name, const LinkName& parsed,
                 std::shared_ptr<GuardedMapping> mapping) {
    if (RingEntries(mapping->size()) == 0) return EINVAL;
    auto ring = std::make_shared<AttachedRing>(name, std::move(mapping), *parsed.ring);
    if (!ring->consumer.fault().empty()) {
      ReportBroken(*ring);
      return EINVAL;
    }
    rings_.emplace(name, NamedRing{client, std::move(ring)});
    return 0;
  }

  void Handle(const ClientPtr& client, DetachRequest& request, host::FileDescriptor, const Reply& reply) {
    client->published.erase(request.name);
    client->attached.erase(request.name);
    if (Owns(client, request.name)) Remove(request.name);
    // A link that was removed has taken the buffer with it, but I/O may still use its memory.
    reply(buffers_->IsLeaving(request.name) ? EBUSY : 0);
  }

  /// Says whether a name is that of a buffer or ring of this client.
  bool Owns(const ClientPtr& client, const std::string& name) const {
    const auto ring = rings_.find(name);
    return ring == rings_.end() ? buffers_->Owns(client, name) : ring->second.owner.lock() == client;
  }

  /// Forgets a buffer or a ring. I/O under way keeps it: its client still asks to detach it, until that is
  /// over.
  void Remove(const std::string& name) {
    if (buffers_->Remove(name)) return;
    const auto ring = rings_.find(name);
    if (ring == rings_.end()) return;
    ring->second.ring->is_closed = true;
    if (!is_stopped_) ring->second.ring->consumer.Close();  // else the next daemon continues it
    rings_.erase(ring);
  }

  void Handle(const ClientPtr& client, OpenFileRequest& request, host::FileDescriptor, const Reply& reply) {
    const Client::FileKey key(request.inode, request.reads, request.writes);
    const auto found = client->files.find(key);
    if (found != client->files.end() && found->second.path == request.path) {
      ++found->second.references;
      return reply(0);
    }
    if (client->files.size() >= kMaxFilesOfClient) return reply(EMFILE);
    const int flags = !request.writes ? O_RDONLY : request.reads ? O_RDWR : O_WRONLY;
    const std::weak_ptr<Client> weak_client = client;
    files_.Open(
        request.path, flags,
        [weak = weak_from_this(), weak_client, key, path = request.path, reply](int error,
                                                                                const OpenedFile& opened) {
          const auto self = weak.lock();
          if (self == nullptr || self->is_stopped_) return;  // the files may have gone, too
          if (error != 0) return reply(error);
          const auto waiting = weak_client.lock();
          // The path may name another file by now.
          const bool is_same = opened.attributes.inode == std::get<0>(key) && S_ISREG(opened.attributes.mode);
          if (waiting == nullptr || !self->clients_.contains(waiting.get()) || !is_same) {
            self->files_.Close(opened.file);
            return reply(S_ISDIR(opened.attributes.mode) ? EISDIR : ESTALE);
          }
          if (waiting->HasOtherFile(opened.attributes.inode, opened.attributes.device)) {
            self->files_.Close(opened.file);
            return reply(EXDEV);
          }
          const auto [place, is_new] = waiting->files.try_emplace(
              key, AttachedFile{.file = opened.file, .path = path, .device = opened.attributes.device});
          if (!is_new) self->files_.Close(opened.file);
          ++place->second.references;
          reply(0);
        });
  }

  void Handle(const ClientPtr& client, CloseFileRequest& request, host::FileDescriptor, const Reply& reply) {
    Pump();  // what was submitted before has the file: the request may be faster than the semaphore
    const auto found = client->files.find(Client::FileKey(request.inode, request.reads, request.writes));
    if (found == client->files.end()) return reply(EBADF);
    if (--found->second.references == 0) {
      files_.Close(found->second.file);
      client->files.erase(found);
    }
    reply(0);
  }

  // I/O.

  /// Starts what the rings have, those of high priority first.
  void Pump() {
    if (is_stopped_) return;
    const auto now = RingConsumer::Clock::now();
    std::optional<RingConsumer::Clock::time_point> next;
    std::vector<std::shared_ptr<AttachedRing>> broken;
    bool has_more = false;
    for (const int priority : ControlSpace::kPriorities) {
      for (const auto& [name, named] : rings_) {
        RingConsumer& consumer = named.ring->consumer;
        if (consumer.config().priority != priority) continue;
        has_more = StartFrom(named, now) || has_more;
        if (IsBroken(*named.ring)) broken.push_back(named.ring);
        const auto deadline = consumer.deadline();
        if (deadline && (!next || *deadline < *next)) next = deadline;
      }
    }
    for (const auto& ring : broken) Break(ring);
    if (has_more) PostPump();
    if (!next) return;
    timer_.expires_at(*next);
    timer_.async_wait([weak = weak_from_this()](const std::error_code& error) {
      const auto self = weak.lock();
      if (!error && self != nullptr) self->Pump();
    });
  }

  /// Starts what a ring has, up to its number of entries: an application that never stops submitting does not
  /// stop the others.
  ///
  /// @return  whether it may have more
  bool StartFrom(const NamedRing& named, RingConsumer::Clock::time_point now) {
    const ClientPtr owner = named.owner.lock();
    if (owner == nullptr) return false;
    RingConsumer& consumer = named.ring->consumer;
    for (int started = 0; started < consumer.entries();) {
      const std::vector<TakenIo> batch = consumer.Take(now);
      if (batch.empty()) return false;
      for (const TakenIo& io : batch) StartIo(owner, named.ring, io);
      started += static_cast<int>(batch.size());
    }
    return true;
  }

  void PostPump() {
    asio::post(loop_.executor(), [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Pump();
    });
  }

  static bool IsBroken(const AttachedRing& ring) {
    return !ring.consumer.fault().empty() || ring.mapping->WasTruncated();
  }

  void ReportBroken(const AttachedRing& ring) {
    ++statistics_.broken_rings;
    Log(LogLevel::kError,
        "Cannot serve the ring " + ring.name + ": " +
            (ring.mapping->WasTruncated() ? std::string("its file was truncated") : ring.consumer.fault()) +
            ". Find out what writes to it besides the library.");
  }

  void Break(const std::shared_ptr<AttachedRing>& ring) {
    if (ring->is_closed) return;
    ReportBroken(*ring);
    Remove(ring->name);
  }

  void StartIo(const ClientPtr& client, const std::shared_ptr<AttachedRing>& ring, const TakenIo& io) {
    const bool reads = ring->consumer.config().for_read;
    const IoArgs& args = io.args;
    ++statistics_.in_flight;
    const std::shared_ptr<AttachedBuffer> buffer = buffers_->Find(args.buffer);
    constexpr auto kMaxOffset = static_cast<uint64_t>(INT64_MAX);
    const bool is_in_file = args.file_offset <= kMaxOffset && args.bytes <= kMaxOffset - args.file_offset;
    if (buffer == nullptr || !is_in_file || !buffer->Contains(args.buffer_offset, args.bytes))
      return Complete(*ring, io, -EINVAL);
    uint64_t file = 0;
    if (!client->Find(args.file, reads, file)) return Complete(*ring, io, -EACCES);
    if (reads) return StartRead(ring, buffer, file, io);
    files_.Write(file, args.file_offset, buffer->Remote(args.buffer_offset, args.bytes),
                 [self = shared_from_this(), ring, buffer, io](int64_t result) {
                   self->Complete(*ring, io, IoResult(result, io.args.bytes));
                 });
  }

  void StartRead(const std::shared_ptr<AttachedRing>& ring, const std::shared_ptr<AttachedBuffer>& buffer,
                 uint64_t file, const TakenIo& io) {
    const bool forbids_holes = (ring->consumer.config().flags & HF3FS_IOR_FORBID_READ_HOLES) != 0;
    const Holes holes = forbids_holes           ? Holes::kListExactly
                        : buffer->CanBeFilled() ? Holes::kList
                                                : Holes::kSend;
    files_.Read(file, io.args.file_offset, buffer->Remote(io.args.buffer_offset, io.args.bytes), holes,
                [self = shared_from_this(), ring, buffer, file, io, forbids_holes](const ReadResult& read) {
                  const int64_t result = IoResult(read.result, io.args.bytes);
                  if (result <= 0 || read.holes.empty()) return self->Complete(*ring, io, result);
                  if (forbids_holes) return self->Complete(*ring, io, -ENODATA);
                  if (self->FillHoles(*buffer, io.args, read)) return self->Complete(*ring, io, result);
                  if (self->is_stopped_) return self->Complete(*ring, io, -EREMOTEIO);
                  self->StartRead(ring, buffer, file, io);  // now with zeros
                });
  }

  /// Zeroes the holes of what was read.
  ///
  /// @return  false: the buffer cannot be filled
  bool FillHoles(const AttachedBuffer& buffer, const IoArgs& args, const ReadResult& read) {
    const auto bytes = static_cast<uint64_t>(read.result);
    for (const Range& hole : read.holes) {
      if (hole.offset >= bytes) continue;
      const uint64_t zeroed = std::min(hole.bytes, bytes - hole.offset);
      if (zeroed == 0) continue;
      if (!buffer.FillWithZeros(args.buffer_offset + hole.offset, zeroed)) return false;
      statistics_.bytes_zeroed += zeroed;
    }
    return true;
  }

  void Complete(AttachedRing& ring, const TakenIo& io, int64_t result) {
    const bool reads = ring.consumer.config().for_read;
    --statistics_.in_flight;
    ++(reads ? statistics_.reads : statistics_.writes);
    if (result < 0) ++statistics_.failures;
    if (result > 0)
      (reads ? statistics_.bytes_read : statistics_.bytes_written) += static_cast<uint64_t>(result);
    if (!ring.is_closed) ring.consumer.Complete(io.slot, result);  // else it may be another daemon's already
  }

  const DaemonConfig config_;
  transport::EventLoop& loop_;
  FileStore& files_;
  const std::unique_ptr<ControlSpace> folder_;
  ControlSpace& control_;
  asio::posix::stream_descriptor listener_;
  asio::steady_timer timer_, accept_timer_, tidy_timer_;
  std::vector<std::unique_ptr<SubmitSemaphore>> semaphores_;
  const std::shared_ptr<std::atomic<bool>> is_pump_posted_ = std::make_shared<std::atomic<bool>>(false);
  bool is_stopped_ = false;

  std::map<const Client*, ClientPtr> clients_;
  const std::shared_ptr<BufferTable> buffers_;
  std::map<std::string, NamedRing> rings_;  // by the names of their links
  DaemonStatistics statistics_{};
};

Daemon::Daemon(const DaemonConfig& config, transport::EventLoop& loop, FileStore& files) {
  auto folder = std::make_unique<ControlFolder>(config.mount, loop);
  ControlSpace& control = *folder;
  impl_ = std::make_shared<Impl>(config, loop, files, control, std::move(folder));
  impl_->Start();
}

Daemon::Daemon(const DaemonConfig& config, transport::EventLoop& loop, FileStore& files,
               ControlSpace& control)
    : impl_(std::make_shared<Impl>(config, loop, files, control, nullptr)) {
  impl_->Start();
}

Daemon::~Daemon() { impl_->Stop(); }

DaemonStatistics Daemon::Statistics() const { return impl_->Statistics(); }

}  // namespace warpverbs::inline v0_2::gpuio
