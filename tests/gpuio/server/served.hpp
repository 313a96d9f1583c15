#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gpuio/common/rig.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// A server of a temporary folder, and a client of it.
class Served : public testing::Test {
 protected:
  /// What a test changes before it calls Serve().
  FileServerConfig server_config_{.address = "127.0.0.1"};
  FileClientConfig client_config_{};

  void Serve() {
    server_config_.folder = folder_.path();
    server_config_.log = [this](const std::string& line) {
      const std::lock_guard lock(log_mutex_);
      log_.push_back(line);
    };
    if (!client_config_.log) client_config_.log = server_config_.log;
    server_ = std::make_unique<Looped<FileServer>>(server_config_);
    client_config_.servers = {{"127.0.0.1", (*server_)->port()}};
    client_ = std::make_unique<Client>(client_config_);
  }

  Client& client() {
    if (!client_) Serve();
    return *client_;
  }
  FileServerStatistics Statistics() {
    return OnLoop(server_->loop(), [&] { return (*server_)->Statistics(); });
  }
  std::vector<std::string> Log() {
    const std::lock_guard lock(log_mutex_);
    return log_;
  }

  void TearDown() override {
    if (!HasFailure()) return;
    client_.reset();
    for (const std::string& line : Log()) std::cout << "log: " << line << "\n";
  }

  /// Reads a part of a file by the client, into memory that is otherwise 0xee.
  std::vector<uint8_t> ReadBack(const std::string& path, uint64_t offset, size_t bytes, ReadResult& result) {
    Memory memory(bytes);
    const uint64_t file = client().MustOpen(path, O_RDONLY);
    result = client().Read(file, offset, memory.Remote());
    client().Close(file);
    return memory.bytes();
  }

  TemporaryFolder folder_;
  std::mutex log_mutex_;
  std::vector<std::string> log_;
  std::unique_ptr<Looped<FileServer>> server_;
  std::unique_ptr<Client> client_;
};

}  // namespace warpverbs::inline v0_2::gpuio
