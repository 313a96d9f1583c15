#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <asio/post.hpp>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gpuio/common/basics.hpp"
#include "gpuio/files/file_client.hpp"
#include "gpuio/server/server.hpp"
#include "warpverbs/transport/event_loop.hpp"
#include "warpverbs/transport/memory.hpp"

/// A folder, servers of it and clients, for tests.
namespace warpverbs::inline v0_2::gpuio {

/// Starts an asynchronous call and waits for what its callback gets.
///
/// @param start  takes the callback
template <class... Values, class Start>
auto Await(const Start& start) {
  auto result = std::make_shared<std::promise<std::tuple<std::decay_t<Values>...>>>();
  auto future = result->get_future();
  start([result](Values... values) { result->set_value({std::move(values)...}); });
  auto values = GetInTime(std::move(future));
  if constexpr (sizeof...(Values) == 1) {
    return std::get<0>(std::move(values));
  } else {
    return values;
  }
}

/// An object that lives on the thread of a loop of its own.
template <class T>
class Looped {
 public:
  template <class Config>
  explicit Looped(const Config& config) {
    OnLoop(loop_, [&] { object_.emplace(config, loop_); });
  }
  ~Looped() {
    OnLoop(loop_, [&] { object_.reset(); });
  }
  Looped(const Looped&) = delete;
  Looped& operator=(const Looped&) = delete;

  T& operator*() { return *object_; }
  T* operator->() { return &*object_; }
  transport::EventLoop& loop() { return loop_; }

 private:
  transport::EventLoop loop_;
  std::optional<T> object_;
};

/// Registered memory that files are read into and written from.
class Memory {
 public:
  explicit Memory(size_t bytes, uint8_t fill = 0xee)
      : bytes_(bytes, fill), registration_(bytes_.data(), bytes, 0) {}

  uint8_t* data() { return bytes_.data(); }
  size_t size() const { return bytes_.size(); }
  std::vector<uint8_t>& bytes() { return bytes_; }
  void Set(const std::vector<uint8_t>& bytes) { std::copy(bytes.begin(), bytes.end(), bytes_.begin()); }

  transport::RdmaRemoteBuffer Remote() const { return registration_.Remote(); }
  transport::RdmaRemoteBuffer Remote(size_t offset, size_t bytes) {
    return {data() + offset, registration_.RemoteKey(), bytes};
  }
  transport::AccessKey key() const { return registration_.RemoteKey(); }

 private:
  std::vector<uint8_t> bytes_;
  transport::RdmaMemory registration_;
};

/// A client whose calls wait for their ends. Results are those of the callbacks; errors are errno values.
class Client {
 public:
  explicit Client(const FileClientConfig& config) : client_(config) {}

  std::pair<int, OpenedFile> Open(const std::string& path, int flags, mode_t mode = 0644) {
    const auto [error, file] =
        Await<int, OpenedFile>([&](auto done) { client_->Open(path, flags, mode, std::move(done)); });
    return {error, file};
  }
  /// Opens a file that is there, or throws.
  uint64_t MustOpen(const std::string& path, int flags, mode_t mode = 0644) {
    const auto [error, file] = Open(path, flags, mode);
    if (error != 0) throw std::runtime_error("cannot open " + path + ": " + std::to_string(error));
    return file.file;
  }
  void Close(uint64_t file) { client_->Close(file); }
  ReadResult Read(uint64_t file, uint64_t offset, const transport::RdmaRemoteBuffer& target,
                  Holes holes = Holes::kList) {
    return Await<ReadResult>([&](auto done) { client_->Read(file, offset, target, std::move(done), holes); });
  }
  int64_t Write(uint64_t file, uint64_t offset, const transport::RdmaRemoteBuffer& source) {
    return Await<int64_t>([&](auto done) { client_->Write(file, offset, source, std::move(done)); });
  }
  int Sync(uint64_t file, bool data_only = false) {
    return Await<int>([&](auto done) { client_->Sync(file, data_only, std::move(done)); });
  }
  int PunchHole(uint64_t file, uint64_t offset, uint64_t bytes) {
    return Await<int>([&](auto done) { client_->PunchHole(file, offset, bytes, std::move(done)); });
  }
  template <class PathOrFile>
  std::tuple<int, Attributes> GetAttributes(const PathOrFile& of) {
    return Await<int, Attributes>([&](auto done) { client_->GetAttributes(of, std::move(done)); });
  }
  template <class PathOrFile>
  int ChangeAttributes(const PathOrFile& of, const AttributeChanges& changes) {
    return std::get<0>(
        Await<int, Attributes>([&](auto done) { client_->ChangeAttributes(of, changes, std::move(done)); }));
  }
  std::pair<int, std::vector<std::string>> List(const std::string& path) {
    auto [error, entries] =
        Await<int, std::vector<DirectoryEntry>>([&](auto done) { client_->List(path, std::move(done)); });
    std::vector<std::string> names;
    for (const DirectoryEntry& entry : entries) names.push_back(entry.name);
    std::sort(names.begin(), names.end());
    return {error, names};
  }
  int MakeDirectory(const std::string& path, mode_t mode = 0755) {
    return Await<int>([&](auto done) { client_->MakeDirectory(path, mode, std::move(done)); });
  }
  int RemoveDirectory(const std::string& path) {
    return Await<int>([&](auto done) { client_->RemoveDirectory(path, std::move(done)); });
  }
  int Unlink(const std::string& path) {
    return Await<int>([&](auto done) { client_->Unlink(path, std::move(done)); });
  }
  int Rename(const std::string& from, const std::string& to, unsigned flags = 0) {
    return Await<int>([&](auto done) { client_->Rename(from, to, flags, std::move(done)); });
  }
  int HardLink(const std::string& from, const std::string& to) {
    return Await<int>([&](auto done) { client_->HardLink(from, to, std::move(done)); });
  }
  std::tuple<int, std::string> ReadLink(const std::string& path) {
    return Await<int, std::string>([&](auto done) { client_->ReadLink(path, std::move(done)); });
  }
  std::tuple<int, Space> GetSpace() {
    return Await<int, Space>([&](auto done) { client_->GetSpace(std::move(done)); });
  }
  std::optional<ServerAddress> Server() {
    return OnLoop(client_.loop(), [&] { return client_->Server(); });
  }
  FileClient* operator->() { return &*client_; }
  transport::EventLoop& loop() { return client_.loop(); }

 private:
  Looped<FileClient> client_;
};

inline void WriteFile(const std::filesystem::path& path, const std::vector<uint8_t>& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

inline std::vector<uint8_t> ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<uint8_t> bytes;
  for (size_t got = 0; file; bytes.resize(got)) {
    constexpr size_t kPiece = 1 << 20;  // a stream's own pieces are small
    bytes.resize(got + kPiece);
    file.read(reinterpret_cast<char*>(bytes.data() + got), kPiece);
    got += static_cast<size_t>(file.gcount());
  }
  return bytes;
}

}  // namespace warpverbs::inline v0_2::gpuio
