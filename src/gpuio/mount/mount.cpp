#include "gpuio/mount/mount.hpp"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "gpuio/mount/data_buffers.hpp"
#include "gpuio/mount/fuse_connection.hpp"
#include "gpuio/mount/node_table.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

constexpr char kControl[] = "3fs-virt", kDaemon[] = "3fs-virt/daemon", kIovs[] = "3fs-virt/iovs";

/// Paths are as good as numbers for how long the kernel keeps them, attributes are not: a ring may change
/// them.
constexpr double kEntrySeconds = 1, kAttributeSeconds = 0;

bool IsControl(const std::string& path) {
  return path == kControl || path.starts_with(std::string(kControl) + "/");
}

/// Returns the name of a link in the folder of iovs; empty: the path is none of one.
std::optional<std::string> LinkName(const std::string& path) {
  const std::string folder = std::string(kIovs) + "/";
  if (!path.starts_with(folder) || path.find('/', folder.size()) != path.npos) return std::nullopt;
  return path.substr(folder.size());
}

struct stat ToStat(const Attributes& attributes) {
  struct stat status {};
  status.st_ino = attributes.inode;
  status.st_mode = attributes.mode;
  status.st_nlink = attributes.links;
  status.st_uid = attributes.uid;
  status.st_gid = attributes.gid;
  status.st_size = static_cast<off_t>(attributes.bytes);
  status.st_blocks = static_cast<blkcnt_t>(attributes.blocks);
  status.st_blksize = DataBuffers::kBytes;
  status.st_atim = attributes.accessed;
  status.st_mtim = attributes.modified;
  status.st_ctim = attributes.changed;
  return status;
}

ControlCaller CallerOf(fuse_req_t request) {
  const fuse_ctx* const context = fuse_req_ctx(request);
  return {context->uid, context->gid, context->pid};
}

bool ReadsAndTruncates(int flags) { return (flags & O_ACCMODE) == O_RDONLY && (flags & O_TRUNC) != 0; }

/// Returns the flags of open(2) that the server learns. The kernel follows symlinks by itself, and OnWrite()
/// appends.
int ServerFlags(int flags) {
  const int truncates = ReadsAndTruncates(flags) ? 0 : flags & O_TRUNC;
  return (flags & (O_ACCMODE | O_EXCL)) | truncates | O_NOFOLLOW;
}

AttributeChanges ToChanges(const struct stat& to, int set) {
  const timespec now{.tv_sec = 0, .tv_nsec = UTIME_NOW};
  AttributeChanges changes;
  if ((set & FUSE_SET_ATTR_SIZE) != 0) changes.bytes = static_cast<uint64_t>(to.st_size);
  if ((set & FUSE_SET_ATTR_MODE) != 0) changes.mode = to.st_mode & 07777U;
  if ((set & FUSE_SET_ATTR_UID) != 0) changes.uid = to.st_uid;
  if ((set & FUSE_SET_ATTR_GID) != 0) changes.gid = to.st_gid;
  if ((set & FUSE_SET_ATTR_ATIME) != 0) changes.accessed = to.st_atim;
  if ((set & FUSE_SET_ATTR_MTIME) != 0) changes.modified = to.st_mtim;
  if ((set & FUSE_SET_ATTR_ATIME_NOW) != 0) changes.accessed = now;
  if ((set & FUSE_SET_ATTR_MTIME_NOW) != 0) changes.modified = now;
  return changes;
}

}  // namespace

/// The operations of the file system. Callbacks of the client share it, and find it closed after the end.
class Mount::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(const MountConfig& config, transport::EventLoop& loop, FileClient& files, ControlLinks* control)
      : files_(files), control_(control), buffers_(config.buffers, config.device, config.max_nics) {
    std::string options =
        "fsname=warpverbs,subtype=warpverbs,max_read=" + std::to_string(DataBuffers::kBytes);
    if (config.allow_other) options += ",allow_other,default_permissions";
    kernel_ = std::make_shared<FuseConnection>(loop, config.folder, options, Operations(), this);
    kernel_->Start(config.on_unmounted);
  }

  void Close() {
    closed_ = true;
    kernel_->Close();
    buffers_.Drop();
  }

 private:
  static Impl& Of(fuse_req_t request) {
    Impl& impl = *static_cast<Impl*>(fuse_req_userdata(request));
    impl.kernel_->Begin(request);
    return impl;
  }

  // Answers. Each looks first whether the request still wants one.

  /// Answers with an errno value; 0: the call has succeeded.
  void Answer(fuse_req_t request, int error) {
    if (kernel_->End(request)) fuse_reply_err(request, error);
  }
  void Fail(fuse_req_t request, int error) { Answer(request, error); }

  /// Answers with a file that has a name, and forgets it again if the program no longer waits for the answer.
  void AnswerEntry(fuse_req_t request, uint64_t parent, const std::string& name, const struct stat& status) {
    if (!kernel_->End(request)) return;
    fuse_entry_param entry = Entry(parent, name, status);
    if (fuse_reply_entry(request, &entry) != 0) nodes_.Forget(entry.ino, 1);
  }
  void AnswerAttributes(fuse_req_t request, const struct stat& status) {
    if (kernel_->End(request)) fuse_reply_attr(request, &status, kAttributeSeconds);
  }
  void AnswerOpen(fuse_req_t request, uint64_t node, fuse_file_info info, uint64_t file) {
    if (closed_) return;
    open_.emplace(node, file);
    info.fh = file;
    info.direct_io = 1;
    if (!kernel_->End(request) || fuse_reply_open(request, &info) != 0) ForgetOpen(node, file);
  }

  fuse_entry_param Entry(uint64_t parent, const std::string& name, const struct stat& status) {
    fuse_entry_param entry{};
    entry.ino = nodes_.Lookup(parent, name, status.st_ino);
    entry.attr = status;
    entry.attr_timeout = kAttributeSeconds;
    entry.entry_timeout = kEntrySeconds;
    return entry;
  }

  /// Returns a callback that answers a request with an error, or that there is none.
  FileClient::Done Finish(fuse_req_t request) {
    return [self = shared_from_this(), request](int error) { self->Answer(request, error); };
  }
  FileClient::Done Finish(fuse_req_t request, std::function<void()> succeeded) {
    return [self = shared_from_this(), request, succeeded = std::move(succeeded)](int error) {
      if (error == 0) succeeded();
      self->Answer(request, error);
    };
  }

  /// Returns the path of a name that is a server's; answers the request itself if it is not.
  std::optional<std::string> ServerPath(fuse_req_t request, uint64_t parent, const char* name) {
    auto path = nodes_.Path(parent, name);
    if (!path) {
      Fail(request, ESTALE);
      return std::nullopt;
    }
    if (control_ != nullptr && IsControl(*path)) {
      Fail(request, EPERM);
      return std::nullopt;
    }
    return path;
  }

  bool IsControlPath(const std::optional<std::string>& path) const {
    return control_ != nullptr && path && IsControl(*path);
  }

  /// Returns the attributes of a file in the control folder.
  std::optional<struct stat> ControlStatus(const std::string& path) const {
    struct stat status {};
    status.st_nlink = 1;
    status.st_uid = geteuid();
    status.st_gid = getegid();
    status.st_ino = std::hash<std::string>()(path) | 1;
    if (path == kControl || path == kIovs) {
      status.st_mode = S_IFDIR | 01777;
      return status;
    }
    const auto target = ControlTarget(path);
    if (!target) return std::nullopt;
    status.st_mode = S_IFLNK | 0777;
    status.st_size = static_cast<off_t>(target->size());
    return status;
  }

  std::optional<std::string> ControlTarget(const std::string& path) const {
    if (path == kDaemon) {
      const std::string socket = control_->Socket();
      return socket.empty() ? std::nullopt : std::optional(socket);
    }
    const auto name = LinkName(path);
    return name ? control_->Target(*name) : std::nullopt;
  }

  std::vector<DirectoryEntry> ControlEntries(const std::string& path) const {
    std::vector<DirectoryEntry> entries;
    const auto add = [&](const std::string& name, uint32_t type) {
      entries.push_back({name, std::hash<std::string>()(path + "/" + name) | 1, type});
    };
    if (path == kControl) {
      add("iovs", S_IFDIR);
      if (ControlTarget(kDaemon)) add("daemon", S_IFLNK);
    } else if (path == kIovs) {
      for (const std::string& name : control_->List()) add(name, S_IFLNK);
    }
    return entries;
  }

  void OnLookup(fuse_req_t request, uint64_t parent, const std::string& name) {
    const auto path = nodes_.Path(parent, name);
    if (!path) return Fail(request, ESTALE);
    if (IsControlPath(path)) {
      const auto status = ControlStatus(*path);
      return status ? AnswerEntry(request, parent, name, *status) : Fail(request, ENOENT);
    }
    AnswerFile(request, parent, name, *path);
  }

  /// Answers with a name after asking the server for its attributes.
  void AnswerFile(fuse_req_t request, uint64_t parent, const std::string& name, const std::string& path) {
    files_.GetAttributes(path,
                         [self = shared_from_this(), request, parent, name](int error, const Attributes& of) {
                           if (error != 0) return self->Fail(request, error);
                           self->AnswerEntry(request, parent, name, ToStat(of));
                         });
  }

  /// Returns the open file that the kernel names, or one of the node.
  std::optional<uint64_t> OpenFileOf(uint64_t node, const fuse_file_info* info) const {
    if (info != nullptr) return info->fh;
    const auto found = open_.find(node);
    return found != open_.end() ? std::optional(found->second) : std::nullopt;
  }

  std::function<void(int, Attributes)> FinishAttributes(fuse_req_t request) {
    return [self = shared_from_this(), request](int error, const Attributes& attributes) {
      if (error != 0) return self->Fail(request, error);
      self->AnswerAttributes(request, ToStat(attributes));
    };
  }

  void OnGetAttributes(fuse_req_t request, uint64_t node, const fuse_file_info* info) {
    const auto path = nodes_.Path(node);
    if (IsControlPath(path)) {
      const auto status = ControlStatus(*path);
      return status ? AnswerAttributes(request, *status) : Fail(request, ENOENT);
    }
    // The kernel names no file in fstat(), and somebody else may have replaced the one that has the name.
    const auto file = OpenFileOf(node, info);
    if (file) return files_.GetAttributes(*file, FinishAttributes(request));
    if (!path) return Fail(request, ESTALE);
    files_.GetAttributes(*path, FinishAttributes(request));
  }

  void OnSetAttributes(fuse_req_t request, uint64_t node, const AttributeChanges& changes,
                       const fuse_file_info* info) {
    const auto path = nodes_.Path(node);
    if (IsControlPath(path)) return Fail(request, EPERM);
    const auto file = path && info == nullptr ? std::nullopt : OpenFileOf(node, info);
    if (file) return files_.ChangeAttributes(*file, changes, FinishAttributes(request));
    if (!path) return Fail(request, ESTALE);
    files_.ChangeAttributes(*path, changes, FinishAttributes(request));
  }

  void OnReadLink(fuse_req_t request, uint64_t node) {
    const auto path = nodes_.Path(node);
    if (!path) return Fail(request, ESTALE);
    const auto answer = [self = shared_from_this(), request](int error, const std::string& target) {
      if (error != 0) return self->Fail(request, error);
      if (self->kernel_->End(request)) fuse_reply_readlink(request, target.c_str());
    };
    if (!IsControlPath(path)) return files_.ReadLink(*path, answer);
    const auto target = ControlTarget(*path);
    answer(target ? 0 : ENOENT, target.value_or(""));
  }

  void OnMakeDirectory(fuse_req_t request, uint64_t parent, const char* name, mode_t mode) {
    const auto path = ServerPath(request, parent, name);
    if (!path) return;
    files_.MakeDirectory(
        *path, mode,
        [self = shared_from_this(), request, parent, name = std::string(name), path = *path](int error) {
          if (error != 0) return self->Fail(request, error);
          self->AnswerFile(request, parent, name, path);
        });
  }

  void OnRemove(fuse_req_t request, uint64_t parent, const char* name, bool directory) {
    const auto path = nodes_.Path(parent, name);
    const auto link = IsControlPath(path) && !directory ? LinkName(*path) : std::nullopt;
    if (link) {
      const int error = control_->Remove(*link, CallerOf(request));
      if (error == 0) nodes_.Remove(parent, name);
      return Answer(request, error);
    }
    if (!ServerPath(request, parent, name)) return;
    const auto done =
        Finish(request, [this, parent, name = std::string(name)] { nodes_.Remove(parent, name); });
    if (directory) return files_.RemoveDirectory(*path, done);
    files_.Unlink(*path, done);
  }

  void OnSymlink(fuse_req_t request, const char* target, uint64_t parent, const char* name) {
    const auto path = nodes_.Path(parent, name);
    const auto link = IsControlPath(path) ? LinkName(*path) : std::nullopt;
    if (!link)
      return Fail(request, EPERM);  // a symlink of the server's folder would be read on the server, too
    const int error = control_->Add(*link, target, CallerOf(request));
    const auto status = error == 0 ? ControlStatus(*path) : std::nullopt;
    if (!status) return Fail(request, error != 0 ? error : EIO);
    AnswerEntry(request, parent, name, *status);
  }

  void OnRename(fuse_req_t request, uint64_t parent, const char* name, uint64_t new_parent,
                const char* new_name, unsigned flags) {
    const auto from = ServerPath(request, parent, name);
    const auto to = from ? ServerPath(request, new_parent, new_name) : std::nullopt;
    if (!to) return;
    files_.Rename(*from, *to, flags,
                  Finish(request, [this, parent, name = std::string(name), new_parent,
                                   new_name = std::string(new_name), flags] {
                    nodes_.Rename(parent, name, new_parent, new_name, (flags & RENAME_EXCHANGE) != 0);
                  }));
  }

  void OnHardLink(fuse_req_t request, uint64_t node, uint64_t new_parent, const char* new_name) {
    const auto from = nodes_.Path(node);
    if (!from) return Fail(request, ESTALE);
    if (IsControlPath(from)) return Fail(request, EPERM);
    const auto to = ServerPath(request, new_parent, new_name);
    if (!to) return;
    files_.HardLink(*from, *to,
                    [self = shared_from_this(), request, new_parent, name = std::string(new_name),
                     path = *to](int error) {
                      if (error != 0) return self->Fail(request, error);
                      self->AnswerFile(request, new_parent, name, path);
                    });
  }

  void OnOpen(fuse_req_t request, uint64_t node, const fuse_file_info& info) {
    const auto path = nodes_.Path(node);
    if (!path) return Fail(request, ESTALE);
    if (IsControlPath(path)) return Fail(request, EPERM);
    const auto open = [self = shared_from_this(), request, node, info, path = *path](int failure,
                                                                                     const Attributes&) {
      if (failure != 0) return self->Fail(request, failure);
      if (self->closed_) return;
      self->files_.Open(path, ServerFlags(info.flags), 0,
                        [self, request, node, info](int error, const OpenedFile& opened) {
                          if (error != 0) return self->Fail(request, error);
                          self->AnswerOpen(request, node, info, opened.file);
                        });
    };
    // Linux truncates a file also where the program only reads it; the server does not.
    if (ReadsAndTruncates(info.flags)) return files_.ChangeAttributes(*path, {.bytes = 0}, open);
    open(0, {});
  }

  void OnCreate(fuse_req_t request, uint64_t parent, const char* name, mode_t mode,
                const fuse_file_info& info) {
    const auto path = ServerPath(request, parent, name);
    if (!path) return;
    const auto created = [self = shared_from_this(), request, parent, name = std::string(name), info](
                             int error, const OpenedFile& opened) {
      if (error != 0) return self->Fail(request, error);
      if (self->closed_ || !self->kernel_->End(request)) return;
      fuse_entry_param entry = self->Entry(parent, name, ToStat(opened.attributes));
      fuse_file_info answer = info;
      answer.fh = opened.file;
      answer.direct_io = 1;
      self->open_.emplace(entry.ino, opened.file);
      if (fuse_reply_create(request, &entry, &answer) != 0) {
        self->ForgetOpen(entry.ino, opened.file);
        self->nodes_.Forget(entry.ino, 1);
      }
    };
    files_.Open(*path, ServerFlags(info.flags) | O_CREAT, mode & 07777, created);
  }

  /// Makes a regular file, and nothing else: a pipe or socket works on one machine only.
  void OnMakeNode(fuse_req_t request, uint64_t parent, const char* name, mode_t mode) {
    if (!S_ISREG(mode)) return Fail(request, EPERM);
    const auto path = ServerPath(request, parent, name);
    if (!path) return;
    files_.Open(*path, O_WRONLY | O_CREAT | O_EXCL, mode & 07777,
                [self = shared_from_this(), request, parent, name = std::string(name)](
                    int error, const OpenedFile& opened) {
                  if (error != 0) return self->Fail(request, error);
                  if (!self->closed_) self->files_.Close(opened.file);
                  self->AnswerEntry(request, parent, name, ToStat(opened.attributes));
                });
  }

  void ForgetOpen(uint64_t node, uint64_t file) {
    const auto [begin, end] = open_.equal_range(node);
    const auto found = std::find_if(begin, end, [&](const auto& entry) { return entry.second == file; });
    if (found != end) open_.erase(found);
    files_.Close(file);
  }

  void OnRead(fuse_req_t request, uint64_t file, size_t bytes, off_t offset) {
    bytes = std::min(bytes, DataBuffers::kBytes);
    buffers_.Take([self = shared_from_this(), request, file, bytes, offset](uint8_t* buffer) {
      const auto answer = [self, request, buffer](const ReadResult& read) {
        for (const Range& hole : read.holes) std::memset(buffer + hole.offset, 0, hole.bytes);
        if (read.result < 0) {
          self->Fail(request, static_cast<int>(-read.result));
        } else if (self->kernel_->End(request)) {
          fuse_reply_buf(request, reinterpret_cast<const char*>(buffer), static_cast<size_t>(read.result));
        }
        self->buffers_.Return(buffer);
      };
      if (self->closed_) return self->buffers_.Return(buffer);
      self->files_.Read(file, static_cast<uint64_t>(offset), self->buffers_.Remote(buffer, bytes), answer);
    });
  }

  void OnWrite(fuse_req_t request, uint64_t file, const char* data, size_t bytes, off_t offset,
               bool appends) {
    bytes = std::min(bytes, DataBuffers::kBytes);
    // The data is the kernel's until this returns, and a buffer may come later.
    std::vector<char> copy(data, data + bytes);
    if (!appends) return Store(request, file, std::move(copy), static_cast<uint64_t>(offset));
    // The kernel knows the size that the file had when it last looked: others may have appended since.
    files_.GetAttributes(file, [self = shared_from_this(), request, file, copy = std::move(copy)](
                                   int error, const Attributes& attributes) {
      if (error != 0) return self->Fail(request, error);
      if (!self->closed_) self->Store(request, file, copy, attributes.bytes);
    });
  }

  void Store(fuse_req_t request, uint64_t file, std::vector<char> data, uint64_t offset) {
    buffers_.Take(
        [self = shared_from_this(), request, file, offset, data = std::move(data)](uint8_t* buffer) {
          if (self->closed_) return self->buffers_.Return(buffer);
          std::memcpy(buffer, data.data(), data.size());
          const auto answer = [self, request, buffer](int64_t result) {
            if (result < 0) {
              self->Fail(request, static_cast<int>(-result));
            } else if (self->kernel_->End(request)) {
              fuse_reply_write(request, static_cast<size_t>(result));
            }
            self->buffers_.Return(buffer);
          };
          self->files_.Write(file, offset, self->buffers_.Remote(buffer, data.size()), answer);
        });
  }

  void OnOpenFolder(fuse_req_t request, uint64_t node, const fuse_file_info& info) {
    const auto path = nodes_.Path(node);
    if (!path) return Fail(request, ESTALE);
    const auto answer = [self = shared_from_this(), request, info, is_root = path->empty()](
                            int error, std::vector<DirectoryEntry> entries) {
      if (error != 0) return self->Fail(request, error);
      if (self->control_ != nullptr && is_root) {
        std::erase_if(entries, [](const DirectoryEntry& entry) { return entry.name == kControl; });
        entries.push_back({kControl, std::hash<std::string>()(kControl) | 1, S_IFDIR});
      }
      entries.insert(entries.begin(), {{".", 1, S_IFDIR}, {"..", 1, S_IFDIR}});
      const uint64_t number = self->next_listing_++;
      self->listings_[number] = std::move(entries);
      fuse_file_info opened = info;
      opened.fh = number;
      if (!self->kernel_->End(request) || fuse_reply_open(request, &opened) != 0)
        self->listings_.erase(number);
    };
    if (IsControlPath(path)) return answer(0, ControlEntries(*path));
    files_.List(*path, answer);
  }

  void OnReadFolder(fuse_req_t request, size_t size, off_t offset, uint64_t number) {
    const auto& entries = listings_[number];
    std::vector<char> bytes(size);
    size_t used = 0;
    for (auto i = static_cast<size_t>(offset); i < entries.size(); ++i) {
      struct stat status {};
      status.st_ino = entries[i].inode;
      status.st_mode = entries[i].type;
      const size_t entry = fuse_add_direntry(request, bytes.data() + used, size - used,
                                             entries[i].name.c_str(), &status, static_cast<off_t>(i + 1));
      if (entry > size - used) break;
      used += entry;
    }
    if (kernel_->End(request)) fuse_reply_buf(request, bytes.data(), used);
  }

  void OnSpace(fuse_req_t request) {
    files_.GetSpace([self = shared_from_this(), request](int error, const Space& space) {
      if (error != 0) return self->Fail(request, error);
      struct statvfs status {};
      status.f_bsize = status.f_frsize = space.block_bytes;
      status.f_blocks = space.blocks;
      status.f_bfree = space.free_blocks;
      status.f_bavail = space.available_blocks;
      status.f_files = space.files;
      status.f_ffree = status.f_favail = space.free_files;
      status.f_namemax = space.longest_name;
      if (self->kernel_->End(request)) fuse_reply_statfs(request, &status);
    });
  }

  static fuse_lowlevel_ops Operations() {
    fuse_lowlevel_ops ops{};
    ops.init = [](void*, fuse_conn_info* connection) {
      connection->max_write = connection->max_read = DataBuffers::kBytes;
      connection->want &=
          ~static_cast<unsigned>(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE);
    };
    ops.lookup = [](fuse_req_t request, fuse_ino_t parent, const char* name) {
      Of(request).OnLookup(request, parent, name);
    };
    ops.forget = [](fuse_req_t request, fuse_ino_t node, uint64_t lookups) {
      static_cast<Impl*>(fuse_req_userdata(request))->nodes_.Forget(node, lookups);
      fuse_reply_none(request);
    };
    ops.forget_multi = [](fuse_req_t request, size_t count, fuse_forget_data* forgets) {
      Impl& impl = *static_cast<Impl*>(fuse_req_userdata(request));
      for (size_t i = 0; i < count; ++i) impl.nodes_.Forget(forgets[i].ino, forgets[i].nlookup);
      fuse_reply_none(request);
    };
    ops.getattr = [](fuse_req_t request, fuse_ino_t node, fuse_file_info* info) {
      Of(request).OnGetAttributes(request, node, info);
    };
    ops.setattr = [](fuse_req_t request, fuse_ino_t node, struct stat* to, int set, fuse_file_info* info) {
      Of(request).OnSetAttributes(request, node, ToChanges(*to, set), info);
    };
    ops.readlink = [](fuse_req_t request, fuse_ino_t node) { Of(request).OnReadLink(request, node); };
    ops.mknod = [](fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, dev_t) {
      Of(request).OnMakeNode(request, parent, name, mode);
    };
    ops.mkdir = [](fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode) {
      Of(request).OnMakeDirectory(request, parent, name, mode);
    };
    ops.unlink = [](fuse_req_t request, fuse_ino_t parent, const char* name) {
      Of(request).OnRemove(request, parent, name, false);
    };
    ops.rmdir = [](fuse_req_t request, fuse_ino_t parent, const char* name) {
      Of(request).OnRemove(request, parent, name, true);
    };
    ops.symlink = [](fuse_req_t request, const char* target, fuse_ino_t parent, const char* name) {
      Of(request).OnSymlink(request, target, parent, name);
    };
    ops.rename = [](fuse_req_t request, fuse_ino_t parent, const char* name, fuse_ino_t new_parent,
                    const char* new_name, unsigned flags) {
      Of(request).OnRename(request, parent, name, new_parent, new_name, flags);
    };
    ops.link = [](fuse_req_t request, fuse_ino_t node, fuse_ino_t new_parent, const char* new_name) {
      Of(request).OnHardLink(request, node, new_parent, new_name);
    };
    ops.open = [](fuse_req_t request, fuse_ino_t node, fuse_file_info* info) {
      Of(request).OnOpen(request, node, *info);
    };
    ops.create = [](fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode,
                    fuse_file_info* info) { Of(request).OnCreate(request, parent, name, mode, *info); };
    ops.read = [](fuse_req_t request, fuse_ino_t, size_t bytes, off_t offset, fuse_file_info* info) {
      Of(request).OnRead(request, info->fh, bytes, offset);
    };
    ops.write = [](fuse_req_t request, fuse_ino_t, const char* data, size_t bytes, off_t offset,
                   fuse_file_info* info) {
      Of(request).OnWrite(request, info->fh, data, bytes, offset, (info->flags & O_APPEND) != 0);
    };
    // A write has ended before its call returns, so a close has nothing to wait for.
    ops.flush = [](fuse_req_t request, fuse_ino_t, fuse_file_info*) { Of(request).Answer(request, 0); };
    ops.release = [](fuse_req_t request, fuse_ino_t node, fuse_file_info* info) {
      Of(request).ForgetOpen(node, info->fh);
      Of(request).Answer(request, 0);
    };
    ops.fsync = [](fuse_req_t request, fuse_ino_t, int data_only, fuse_file_info* info) {
      Impl& impl = Of(request);
      impl.files_.Sync(info->fh, data_only != 0, impl.Finish(request));
    };
    ops.opendir = [](fuse_req_t request, fuse_ino_t node, fuse_file_info* info) {
      Of(request).OnOpenFolder(request, node, *info);
    };
    ops.readdir = [](fuse_req_t request, fuse_ino_t, size_t size, off_t offset, fuse_file_info* info) {
      Of(request).OnReadFolder(request, size, offset, info->fh);
    };
    ops.releasedir = [](fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
      Of(request).listings_.erase(info->fh);
      Of(request).Answer(request, 0);
    };
    ops.fsyncdir = [](fuse_req_t request, fuse_ino_t, int, fuse_file_info*) {
      Of(request).Answer(request, 0);
    };
    ops.statfs = [](fuse_req_t request, fuse_ino_t) { Of(request).OnSpace(request); };
    ops.fallocate = [](fuse_req_t request, fuse_ino_t, int mode, off_t offset, off_t bytes,
                       fuse_file_info* info) {
      Impl& impl = Of(request);
      if (mode != (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)) return impl.Fail(request, EOPNOTSUPP);
      impl.files_.PunchHole(info->fh, static_cast<uint64_t>(offset), static_cast<uint64_t>(bytes),
                            impl.Finish(request));
    };
    return ops;
  }

  FileClient& files_;
  ControlLinks* const control_;
  DataBuffers buffers_;
  NodeTable nodes_;
  std::multimap<uint64_t, uint64_t> open_;  // files by their nodes
  std::map<uint64_t, std::vector<DirectoryEntry>> listings_;
  uint64_t next_listing_ = 1;
  bool closed_ = false;  // the client may be gone
  std::shared_ptr<FuseConnection> kernel_;
};

Mount::Mount(const MountConfig& config, transport::EventLoop& loop, FileClient& files, ControlLinks* control)
    : impl_(std::make_shared<Impl>(config, loop, files, control)) {}

Mount::~Mount() { impl_->Close(); }

}  // namespace warpverbs::inline v0_2::gpuio
