#include "gpuio/files/file_client.hpp"

#include <fcntl.h>

#include <algorithm>
#include <asio/dispatch.hpp>
#include <asio/post.hpp>
#include <cerrno>
#include <utility>

#include "gpuio/files/request_queue.hpp"
#include "gpuio/protocol/path.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::gpuio {

using namespace protocol;

namespace {

/// Returns a path as requests have it; its error in `error`.
std::string Plain(const std::string& path, int& error) {
  auto plain = ToPlainPath(path);
  if (!plain && error == 0) error = PathError(path);
  return plain.value_or("");
}

}  // namespace

/// Turns calls into requests.
class FileClient::Impl : public RequestQueue {
 public:
  using RequestQueue::RequestQueue;

  /// Calls a user's callback from the loop, with the error and a part of the reply.
  template <class ReplyType, class Take, class Callback>
  RequestDone Then(Callback callback, Take take) {
    return [this, callback = std::move(callback), take](int error, Reply& reply) mutable {
      auto* const typed = error == 0 ? std::get_if<ReplyType>(&reply) : nullptr;
      asio::post(context(), [callback = std::move(callback), error,
                             value = typed != nullptr ? take(*typed) : decltype(take(*typed)){}]() mutable {
        callback(error, std::move(value));
      });
    };
  }
  RequestDone Then(Done callback) {
    return [this, callback = std::move(callback)](int error, Reply&) mutable {
      asio::post(context(), [callback = std::move(callback), error] { callback(error); });
    };
  }

  /// Ends a call without a request.
  template <class Callback, class... Values>
  void Refuse(Callback callback, Values... values) {
    asio::post(context(), [callback = std::move(callback), values...] { callback(values...); });
  }

  /// Makes or removes a name.
  ///
  /// @param of_root  error for the root, which is always there
  template <class RequestType>
  void ChangeName(RequestType request, int of_root, Done done) {
    asio::dispatch(context(), [self = std::static_pointer_cast<Impl>(shared_from_this()),
                               request = std::move(request), of_root, done = std::move(done)]() mutable {
      int error = 0;
      request.path = Plain(request.path, error);
      if (error == 0 && request.path.empty()) error = of_root;
      if (error != 0) return self->Refuse(std::move(done), error);
      self->Submit({.message = std::move(request), .done = self->Then(std::move(done))});
    });
  }

  void ListFrom(ListRequest request, std::vector<DirectoryEntry> entries,
                std::function<void(int, std::vector<DirectoryEntry>)> done) {
    Submit({.message = request,
            .done = [this, request, entries = std::move(entries), done = std::move(done)](
                        int error, Reply& reply) mutable {
              auto* const page = error == 0 ? std::get_if<ListReply>(&reply) : nullptr;
              if (page == nullptr) return Refuse(std::move(done), error, std::vector<DirectoryEntry>());
              entries.insert(entries.end(), page->entries.begin(), page->entries.end());
              // A server that makes no progress would have the client ask forever.
              if (page->end || page->next == request.start)
                return Refuse(std::move(done), 0, std::move(entries));
              request.start = page->next;
              ListFrom(std::move(request), std::move(entries), std::move(done));
            }});
  }
};

namespace {

/// The flags of a request for those of open(2); empty: they have others.
std::optional<uint32_t> ToOpenFlags(int flags) {
  constexpr int kKnown = O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  const int access = flags & O_ACCMODE;
  if ((flags & ~kKnown) != 0 || access == O_ACCMODE) return std::nullopt;
  uint32_t result = access == O_RDONLY ? kOpenRead : access == O_WRONLY ? kOpenWrite : kOpenRead | kOpenWrite;
  if ((flags & O_CREAT) != 0) result |= kOpenCreate;
  if ((flags & O_EXCL) != 0 && (flags & O_CREAT) != 0) result |= kOpenExclusive;
  if ((flags & O_TRUNC) != 0 && access == O_RDONLY) return std::nullopt;
  if ((flags & O_TRUNC) != 0) result |= kOpenTruncate;
  if ((flags & O_DIRECTORY) != 0) result |= kOpenDirectory;
  if ((flags & O_NOFOLLOW) != 0) result |= kOpenNoFollow;
  return result;
}

const auto kTakeAttributes = [](AttributesReply& reply) { return reply.attributes; };

}  // namespace

FileClient::FileClient(const FileClientConfig& config, transport::EventLoop& loop) {
  if (config.servers.empty())
    throw host::Error("use", "files of a server", "no server is named", "Name one as HOST:PORT");
  const transport::RdmaTransport probe(config.device, config.transport,
                                       &loop);  // throws if there is no device
  impl_ = std::make_shared<Impl>(config, loop);
  asio::dispatch(loop.context(), [impl = impl_] { impl->Connect(); });
}

FileClient::~FileClient() { impl_->Close(); }

std::optional<ServerAddress> FileClient::Server() const { return impl_->Server(); }

std::optional<std::string> FileClient::PathOf(uint64_t file) const {
  const auto found = impl_->Find(file);
  return found ? std::optional(found->path) : std::nullopt;
}

void FileClient::Open(std::string path, int flags, mode_t mode,
                      std::function<void(int error, OpenedFile)> done) {
  asio::dispatch(impl_->context(), [impl = impl_, path = std::move(path), flags, mode,
                                    done = std::move(done)]() mutable {
    int error = 0;
    OpenRequest request{.path = Plain(path, error), .mode = mode & 07777};
    const auto known = ToOpenFlags(flags);
    if (error != 0 || !known) return impl->Refuse(std::move(done), error != 0 ? error : EINVAL, OpenedFile{});
    request.flags = *known;
    impl->Submit(
        {.message = request,
         .done = [impl = impl.get(), request, done = std::move(done)](int failure, Reply& reply) mutable {
           OpenedFile opened;
           if (const auto* const open = failure == 0 ? std::get_if<OpenReply>(&reply) : nullptr)
             opened = impl->AddFile(request, *open);
           impl->Refuse(std::move(done), failure, opened);
         }});
  });
}

void FileClient::Close(uint64_t file) {
  asio::dispatch(impl_->context(), [impl = impl_, file] { impl->RemoveFile(file); });
}

void FileClient::Read(uint64_t file, uint64_t offset, const transport::RdmaRemoteBuffer& target,
                      std::function<void(ReadResult)> done, Holes holes) {
  asio::dispatch(
      impl_->context(), [impl = impl_, file, offset, target, done = std::move(done), holes]() mutable {
        impl->Submit({.message = ReadRequest{.offset = offset, .buffer = target, .holes = holes},
                      .file = impl->Find(file),
                      .needs_file = true,
                      .done = [impl = impl.get(), done = std::move(done)](int error, Reply& reply) mutable {
                        ReadResult result{.result = -error};
                        if (auto* const read = error == 0 ? std::get_if<ReadReply>(&reply) : nullptr)
                          result = {static_cast<int64_t>(read->bytes), std::move(read->holes)};
                        impl->Refuse(std::move(done), std::move(result));
                      }});
      });
}

void FileClient::Write(uint64_t file, uint64_t offset, const transport::RdmaRemoteBuffer& source,
                       std::function<void(int64_t)> done) {
  asio::dispatch(impl_->context(), [impl = impl_, file, offset, source, done = std::move(done)]() mutable {
    const auto found = impl->Find(file);
    impl->Submit(
        {.message = WriteRequest{.offset = offset, .buffer = source},
         .file = found,
         .needs_file = true,
         .done = [impl = impl.get(), found, done = std::move(done)](int error, Reply& reply) mutable {
           int64_t result = -error;
           if (const auto* const write = error == 0 ? std::get_if<WriteReply>(&reply) : nullptr) {
             result = static_cast<int64_t>(write->bytes);
             ++found->writes;
           }
           impl->Refuse(std::move(done), result);
         }});
  });
}

void FileClient::Sync(uint64_t file, bool data_only, Done done) {
  asio::dispatch(impl_->context(), [impl = impl_, file, data_only, done = std::move(done)]() mutable {
    const auto found = impl->Find(file);
    const uint64_t writes = found ? found->writes : 0;
    impl->Submit(
        {.message = SyncRequest{.data_only = data_only},
         .file = found,
         .needs_file = true,
         .done = [impl = impl.get(), found, writes, done = std::move(done)](int error, Reply&) mutable {
           if (error == 0) found->synced_writes = std::max(found->synced_writes, writes);
           if (error == 0 && std::exchange(found->lost_writes, false)) error = EREMOTEIO;
           impl->Refuse(std::move(done), error);
         }});
  });
}

void FileClient::PunchHole(uint64_t file, uint64_t offset, uint64_t bytes, Done done) {
  asio::dispatch(impl_->context(), [impl = impl_, file, offset, bytes, done = std::move(done)]() mutable {
    impl->Submit({.message = PunchHoleRequest{.offset = offset, .bytes = bytes},
                  .file = impl->Find(file),
                  .needs_file = true,
                  .done = impl->Then(std::move(done))});
  });
}

void FileClient::GetAttributes(uint64_t file, std::function<void(int error, Attributes)> done) {
  asio::dispatch(impl_->context(), [impl = impl_, file, done = std::move(done)]() mutable {
    impl->Submit({.message = GetAttributesRequest{},
                  .file = impl->Find(file),
                  .needs_file = true,
                  .done = impl->Then<AttributesReply>(std::move(done), kTakeAttributes)});
  });
}

void FileClient::ChangeAttributes(uint64_t file, const AttributeChanges& changes,
                                  std::function<void(int error, Attributes)> done) {
  asio::dispatch(impl_->context(), [impl = impl_, file, changes, done = std::move(done)]() mutable {
    impl->Submit({.message = ChangeAttributesRequest{.changes = changes},
                  .file = impl->Find(file),
                  .needs_file = true,
                  .done = impl->Then<AttributesReply>(std::move(done), kTakeAttributes)});
  });
}

void FileClient::GetAttributes(std::string path, std::function<void(int error, Attributes)> done) {
  asio::dispatch(impl_->context(), [impl = impl_, path = std::move(path), done = std::move(done)]() mutable {
    int error = 0;
    GetAttributesRequest request{.path = Plain(path, error)};
    if (error != 0) return impl->Refuse(std::move(done), error, Attributes{});
    impl->Submit({.message = std::move(request),
                  .done = impl->Then<AttributesReply>(std::move(done), kTakeAttributes)});
  });
}

void FileClient::ChangeAttributes(std::string path, const AttributeChanges& changes,
                                  std::function<void(int error, Attributes)> done) {
  asio::dispatch(impl_->context(),
                 [impl = impl_, path = std::move(path), changes, done = std::move(done)]() mutable {
                   int error = 0;
                   ChangeAttributesRequest request{.path = Plain(path, error), .changes = changes};
                   if (error != 0) return impl->Refuse(std::move(done), error, Attributes{});
                   impl->Submit({.message = std::move(request),
                                 .done = impl->Then<AttributesReply>(std::move(done), kTakeAttributes)});
                 });
}

void FileClient::List(std::string path, std::function<void(int error, std::vector<DirectoryEntry>)> done) {
  asio::dispatch(impl_->context(), [impl = impl_, path = std::move(path), done = std::move(done)]() mutable {
    int error = 0;
    ListRequest request{.path = Plain(path, error)};
    if (error != 0) return impl->Refuse(std::move(done), error, std::vector<DirectoryEntry>());
    impl->ListFrom(std::move(request), {}, std::move(done));
  });
}

void FileClient::MakeDirectory(std::string path, mode_t mode, Done done) {
  impl_->ChangeName(MakeDirectoryRequest{.path = std::move(path), .mode = mode & 07777}, EEXIST,
                    std::move(done));
}

void FileClient::RemoveDirectory(std::string path, Done done) {
  impl_->ChangeName(RemoveRequest{.path = std::move(path), .directory = true}, EBUSY, std::move(done));
}

void FileClient::Unlink(std::string path, Done done) {
  impl_->ChangeName(RemoveRequest{.path = std::move(path)}, EISDIR, std::move(done));
}

void FileClient::Rename(std::string from, std::string to, unsigned flags, Done done) {
  asio::dispatch(impl_->context(), [impl = impl_, from = std::move(from), to = std::move(to), flags,
                                    done = std::move(done)]() mutable {
    int error = 0;
    RenameRequest request{.from = Plain(from, error), .to = Plain(to, error), .flags = flags};
    if (error == 0 && (request.from.empty() || request.to.empty())) error = EBUSY;
    if (error != 0) return impl->Refuse(std::move(done), error);
    impl->Submit({.message = request,
                  .done = [impl = impl.get(), request, done = std::move(done)](int failure, Reply&) mutable {
                    if (failure == 0) impl->RenameFiles(request);
                    impl->Refuse(std::move(done), failure);
                  }});
  });
}

void FileClient::HardLink(std::string from, std::string to, Done done) {
  asio::dispatch(impl_->context(), [impl = impl_, from = std::move(from), to = std::move(to),
                                    done = std::move(done)]() mutable {
    int error = 0;
    HardLinkRequest request{.from = Plain(from, error), .to = Plain(to, error)};
    if (error == 0 && (request.from.empty() || request.to.empty())) error = EPERM;
    if (error != 0) return impl->Refuse(std::move(done), error);
    impl->Submit({.message = std::move(request), .done = impl->Then(std::move(done))});
  });
}

void FileClient::ReadLink(std::string path, std::function<void(int error, std::string target)> done) {
  asio::dispatch(impl_->context(), [impl = impl_, path = std::move(path), done = std::move(done)]() mutable {
    int error = 0;
    ReadLinkRequest request{.path = Plain(path, error)};
    if (error != 0) return impl->Refuse(std::move(done), error, std::string());
    impl->Submit({.message = std::move(request),
                  .done = impl->Then<ReadLinkReply>(std::move(done),
                                                    [](ReadLinkReply& reply) { return reply.target; })});
  });
}

void FileClient::GetSpace(std::function<void(int error, Space)> done) {
  asio::dispatch(impl_->context(), [impl = impl_, done = std::move(done)]() mutable {
    impl->Submit(
        {.message = SpaceRequest{},
         .done = impl->Then<SpaceReply>(std::move(done), [](SpaceReply& reply) { return reply.space; })});
  });
}

}  // namespace warpverbs::inline v0_2::gpuio
