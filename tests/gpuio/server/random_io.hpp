#pragma once

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gpuio/common/rig.hpp"

/// Random I/O against a model, for tests under faults.
namespace warpverbs::inline v0_2::gpuio {

/// Returns how long such a test runs: WARPVERBS_SOAK_SECONDS, or a few seconds.
inline std::chrono::seconds SoakTime(std::chrono::seconds usual) {
  const char* const seconds = std::getenv("WARPVERBS_SOAK_SECONDS");
  return seconds != nullptr ? std::chrono::seconds(std::atoi(seconds)) : usual;
}

/// A file and what it should contain. One thread at a time uses it.
class ModelFile {
 public:
  static constexpr size_t kLargest = 600'000;  // bytes of a file

  /// @param may_fail  whether operations may end with EREMOTEIO: then it starts over with an empty file
  ModelFile(Client& client, const std::string& name, uint64_t seed, bool may_fail)
      : client_(client),
        file_(Opened(client, name, may_fail)),
        random_(seed),
        memory_(kLargest),
        may_fail_(may_fail) {}
  ~ModelFile() { client_.Close(file_); }
  ModelFile(const ModelFile&) = delete;
  ModelFile& operator=(const ModelFile&) = delete;

  /// Does one random operation, and compares what it returns. Returns what is wrong, or "".
  std::string Step() {
    if (++steps_ % 20 == 0) history_.clear();
    const size_t offset = random_() % kLargest;
    const size_t largest = random_() % 3 == 0 ? kLargest : 10'000;
    const size_t bytes = 1 + random_() % std::min(kLargest - offset, largest);
    switch (random_() % 10) {
      case 0:
        return Truncate(random_() % kLargest);
      case 1:
        return Punch(offset, bytes);
      case 2:
      case 3:
      case 4:
      case 5:
        return Write(offset, bytes);
      default:
        return Read(offset, bytes);
    }
  }

  /// Reads and compares all of the file.
  std::string Verify() { return Read(0, kLargest); }

  size_t steps() const { return steps_; }

 private:
  /// @param may_fail  whether a server may be killed meanwhile: the next one is asked then
  static uint64_t Opened(Client& client, const std::string& name, bool may_fail) {
    constexpr int kFlags = O_RDWR | O_CREAT | O_TRUNC;
    if (may_fail) {
      if (const auto [error, file] = client.Open(name, kFlags); error == 0) return file.file;
    }
    return client.MustOpen(name, kFlags);
  }

  /// A result that a lost connection explains.
  bool Lost(int64_t result) {
    if (!may_fail_ || result != -EREMOTEIO) return false;
    unsure_ = true;
    return true;
  }

  void Note(const char* what, size_t offset, size_t bytes, int64_t result) {
    history_ += "\n" + std::string(what) + " " + std::to_string(offset) + " + " + std::to_string(bytes) +
                ": " + std::to_string(result);
  }

  std::string Write(size_t offset, size_t bytes) {
    const auto pattern = Pattern(bytes, random_());
    std::copy(pattern.begin(), pattern.end(), memory_.data());
    const int64_t result = client_.Write(file_, offset, memory_.Remote(0, bytes));
    Note("write", offset, bytes, result);
    if (Lost(result)) return "";
    if (result != static_cast<int64_t>(bytes)) return "a write returned " + std::to_string(result);
    if (model_.size() < offset + bytes) model_.resize(offset + bytes, 0);
    std::copy(pattern.begin(), pattern.end(), model_.begin() + static_cast<ptrdiff_t>(offset));
    return "";
  }

  std::string Read(size_t offset, size_t bytes) {
    std::fill_n(memory_.data(), bytes, uint8_t{0xee});
    const ReadResult result = client_.Read(file_, offset, memory_.Remote(0, bytes));
    Note("read", offset, bytes, result.result);
    for (const Range& hole : result.holes) Note("hole", hole.offset + offset, hole.bytes, 0);
    if (Lost(result.result)) return "";
    if (result.result < 0) return "a read returned " + std::to_string(result.result);
    const auto got = static_cast<size_t>(result.result);
    for (const Range& hole : result.holes) std::fill_n(memory_.data() + hole.offset, hole.bytes, uint8_t{0});
    if (unsure_) return StartOver();
    const size_t expected = model_.size() > offset ? std::min(bytes, model_.size() - offset) : 0;
    if (got != expected)
      return "a read returned " + std::to_string(got) + " bytes in place of " + std::to_string(expected);
    for (size_t i = 0; i < got; ++i) {
      if (memory_.data()[i] == model_[offset + i]) continue;
      size_t last = i;
      for (size_t k = i; k < got; ++k) last = memory_.data()[k] != model_[offset + k] ? k : last;
      return "bytes " + std::to_string(offset + i) + " to " + std::to_string(offset + last) +
             " differ, first " + std::to_string(memory_.data()[i]) + " in place of " +
             std::to_string(model_[offset + i]) + history_;
    }
    if (std::count(memory_.data() + got, memory_.data() + bytes, 0xee) != static_cast<ptrdiff_t>(bytes - got))
      return "bytes behind the end of the file changed";
    return "";
  }

  /// Empties the file after an operation that was lost, which may have had an effect or not.
  std::string StartOver() {
    unsure_ = false;
    return Truncate(0);
  }

  std::string Truncate(size_t bytes) {
    const int error = client_.ChangeAttributes(file_, {.bytes = bytes});
    Note("truncate", bytes, 0, error);
    if (Lost(-error)) return "";
    if (error != 0) return "a truncation returned " + std::to_string(error);
    model_.resize(bytes, 0);
    if (bytes == 0) unsure_ = false;
    return "";
  }

  std::string Punch(size_t offset, size_t bytes) {
    const int error = client_.PunchHole(file_, offset, bytes);
    Note("punch", offset, bytes, error);
    if (Lost(-error)) return "";
    if (error != 0) return "punching a hole returned " + std::to_string(error);
    const size_t end = std::min(model_.size(), offset + bytes);
    for (size_t i = offset; i < end; ++i) model_[i] = 0;
    return "";
  }

  Client& client_;
  uint64_t file_;
  std::mt19937_64 random_;
  Memory memory_;
  std::vector<uint8_t> model_;
  bool may_fail_, unsure_ = false;
  size_t steps_ = 0;
  std::string history_;  // of the last operations
};

/// Runs threads, each with a file of its own, until a time or an error. Returns the errors.
inline std::vector<std::string> RandomIo(Client& client, size_t threads, std::chrono::milliseconds time,
                                         bool may_fail, size_t* steps = nullptr) {
  const auto end = std::chrono::steady_clock::now() + time;
  std::vector<std::string> errors(threads);
  std::vector<size_t> done(threads);
  {
    std::vector<std::jthread> workers;
    for (size_t i = 0; i < threads; ++i) {
      workers.emplace_back([&, i] {
        try {
          ModelFile file(client, "random" + std::to_string(i), i, may_fail);
          do {
            errors[i] = file.Step();
          } while (errors[i].empty() && std::chrono::steady_clock::now() < end);
          if (errors[i].empty()) errors[i] = file.Verify();
          done[i] = file.steps();
        } catch (const std::exception& error) {
          errors[i] = error.what();
        }
      });
    }
  }
  if (steps != nullptr) {
    for (const size_t count : done) *steps += count;
  }
  std::erase(errors, "");
  return errors;
}

}  // namespace warpverbs::inline v0_2::gpuio
