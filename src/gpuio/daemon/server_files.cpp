#include "gpuio/daemon/server_files.hpp"

#include <asio/post.hpp>
#include <cerrno>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "gpuio/control/log.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::gpuio {

class ServerFiles::Impl : public std::enable_shared_from_this<ServerFiles::Impl> {
 public:
  /// Work on a file of a client; or the error for which there is none.
  using Work = std::function<void(int error, FileClient* client, uint64_t file)>;

  Impl(FileClient& client, const FileClientConfig& config, transport::EventLoop& loop)
      : client_(client), config_(config), loop_(loop) {}

  void Open(std::string path, int flags, std::function<void(int error, OpenedFile)> done) {
    client_.Open(
        std::move(path), flags, 0,
        [weak = weak_from_this(), flags, done = std::move(done)](int error, const OpenedFile& opened) {
          const auto self = weak.lock();
          if (error == 0 && self != nullptr)
            self->files_[opened.file] = {.flags = flags, .inode = opened.attributes.inode};
          done(error, opened);
        });
  }

  void Close(uint64_t file) {
    client_.Close(file);
    const auto found = files_.find(file);
    if (found == files_.end()) return;
    found->second.is_closed = true;
    CloseCopies(found);
  }

  /// Does work on a file by the client of a device, at once if the file is open there.
  void With(uint64_t file, int device, Work work) {
    if (device == config_.device) return work(0, &client_, file);
    const auto found = files_.find(file);
    if (found == files_.end() || found->second.is_closed) return Refuse(EBADF, std::move(work));
    Copy& copy = found->second.copies[device];
    if (copy.file != 0) return work(0, clients_.at(device).get(), copy.file);
    copy.waiting.push_back(std::move(work));
    if (copy.waiting.size() == 1) OpenCopy(file, device, found->second);
  }

  /// Forgets a file of a device that is stale. Its next use opens it again by its present path.
  ///
  /// @param number  of the copy, which may have been opened again meanwhile
  /// @param result  of a read or write of it
  void OnResult(uint64_t file, int device, uint64_t number, int64_t result) {
    const auto found = files_.find(file);
    if (result != -ESTALE || device == config_.device || found == files_.end()) return;
    const auto copy = found->second.copies.find(device);
    if (copy == found->second.copies.end() || copy->second.file != number) return;
    clients_.at(device)->Close(number);
    found->second.copies.erase(copy);
  }

  /// Ends the connections of other devices.
  void Stop() {
    clients_.clear();
    for (auto& [number, file] : files_) {
      for (auto& [device, copy] : file.copies) {
        for (Work& work : std::exchange(copy.waiting, {})) Refuse(ECANCELED, std::move(work));
      }
    }
  }

 private:
  /// The file on the connection of another device.
  struct Copy {
    uint64_t file = 0;  ///< 0: it is being opened
    std::vector<Work> waiting{};
  };
  struct File {
    int flags = 0;
    uint64_t inode = 0;
    std::map<int, Copy> copies{};  ///< keys are devices
    bool is_closed = false;        ///< closed by its client; copies that are being opened follow
  };

  /// Closes the copies of a file that is closed, and forgets it with the last one. One that is being opened
  /// does first what waits for it.
  void CloseCopies(std::map<uint64_t, File>::iterator of) {
    std::erase_if(of->second.copies, [this](const auto& entry) {
      const auto& [device, copy] = entry;
      if (copy.file != 0) clients_.at(device)->Close(copy.file);
      return copy.waiting.empty();
    });
    if (of->second.copies.empty()) files_.erase(of);
  }

  void Refuse(int error, Work work) {
    asio::post(loop_.executor(), [work = std::move(work), error] { work(error, nullptr, 0); });
  }

  /// @return  nullptr: the device has no NIC
  FileClient* ClientOf(int device) {
    std::unique_ptr<FileClient>& client = clients_[device];
    if (client != nullptr) return client.get();
    FileClientConfig config = config_;
    config.device = device;
    try {
      client = std::make_unique<FileClient>(config, loop_);
    } catch (const host::Error& error) {
      Log(LogLevel::kError, error.what());
    }
    return client.get();
  }

  void OpenCopy(uint64_t file, int device, const File& of) {
    const std::optional<std::string> path = client_.PathOf(file);
    FileClient* const client = path ? ClientOf(device) : nullptr;
    const auto done = [weak = weak_from_this(), file, device, inode = of.inode](int error,
                                                                                const OpenedFile& opened) {
      if (const auto self = weak.lock()) self->OnOpened(file, device, inode, error, opened);
    };
    if (client != nullptr) return client->Open(*path, of.flags, 0, done);
    asio::post(loop_.executor(), [done, error = path ? EIO : EBADF] { done(error, {}); });
  }

  void OnOpened(uint64_t file, int device, uint64_t inode, int error, const OpenedFile& opened) {
    const auto found = files_.find(file);
    if (found == files_.end()) return;                                   // it was stopped
    if (error == 0 && opened.attributes.inode != inode) error = ESTALE;  // the path names another file by now
    FileClient* const client = clients_[device].get();
    if (error != 0 && opened.file != 0) client->Close(opened.file);
    Copy& copy = found->second.copies[device];
    copy.file = error == 0 ? opened.file : 0;
    const bool is_closed = found->second.is_closed;
    for (const Work& work : std::exchange(copy.waiting, {})) work(error, client, opened.file);
    if (is_closed) CloseCopies(found);
  }

  FileClient& client_;
  const FileClientConfig config_;
  transport::EventLoop& loop_;
  std::map<int, std::unique_ptr<FileClient>> clients_;  // of other devices
  std::map<uint64_t, File> files_;                      // by their numbers of client_
};

ServerFiles::ServerFiles(FileClient& client, const FileClientConfig& config, transport::EventLoop& loop)
    : impl_(std::make_shared<Impl>(client, config, loop)) {}

ServerFiles::~ServerFiles() { impl_->Stop(); }

void ServerFiles::Open(std::string path, int flags, std::function<void(int error, OpenedFile)> done) {
  impl_->Open(std::move(path), flags, std::move(done));
}

void ServerFiles::Close(uint64_t file) { impl_->Close(file); }

void ServerFiles::Read(uint64_t file, uint64_t offset, const RegisteredRange& target, Holes holes,
                       std::function<void(ReadResult)> done) {
  impl_->With(file, target.device,
              [=, weak = std::weak_ptr(impl_), done = std::move(done)](int error, FileClient* client,
                                                                       uint64_t number) {
                if (error != 0) return done({.result = -error});
                const auto finish = [=](ReadResult result) {
                  if (const auto self = weak.lock()) self->OnResult(file, target.device, number, result.result);
                  done(std::move(result));
                };
                client->Read(number, offset, target.memory, finish, holes);
              });
}

void ServerFiles::Write(uint64_t file, uint64_t offset, const RegisteredRange& source,
                        std::function<void(int64_t)> done) {
  impl_->With(file, source.device,
              [=, weak = std::weak_ptr(impl_), done = std::move(done)](int error, FileClient* client,
                                                                       uint64_t number) {
                if (error != 0) return done(-error);
                client->Write(number, offset, source.memory, [=](int64_t result) {
                  if (const auto self = weak.lock()) self->OnResult(file, source.device, number, result);
                  done(result);
                });
              });
}

}  // namespace warpverbs::inline v0_2::gpuio
