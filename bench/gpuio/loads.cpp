#include "loads.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include "gpuio/pattern.hpp"
#include "gpuio/ring_io.hpp"
#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::bench {
namespace {

using Clock = std::chrono::steady_clock;

double Since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// The places of a load's reads, for any number of threads.
class Offsets {
 public:
  Offsets(const Setting& setting, const Load& load)
      : blocks_(setting.file_bytes / load.bytes), bytes_(load.bytes), is_random_(load.is_random) {}

  size_t Next() {
    const uint64_t index = next_.fetch_add(1, std::memory_order_relaxed);
    return (is_random_ ? std::mt19937_64(index)() : index) % blocks_ * bytes_;
  }

 private:
  size_t blocks_, bytes_;
  bool is_random_;
  std::atomic<uint64_t> next_{0};
};

std::unique_ptr<host::Buffer> AllocateOnDevice(const Setting& setting, size_t bytes) {
  if (setting.gpu) return host::CudaMemoryKind(host::Gpu(*setting.gpu)).Allocate(bytes);
  return host::HostMemoryKind().Allocate(bytes);
}

void ExpectContents(std::span<const std::byte> found, size_t offset) {
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] != static_cast<std::byte>(ByteOfFile(offset + i)))
      throw std::runtime_error("byte " + std::to_string(offset + i) + " of the file arrived wrong");
  }
}

void ExpectContents(const host::Buffer& buffer, size_t at, size_t bytes, size_t offset) {
  std::vector<std::byte> found(bytes);
  buffer.CopyOut(at, found);
  ExpectContents(found, offset);
}

/// Keeps a ring full for the time of a load.
///
/// @param on_arrival  called with the slot of the buffer that a read has filled, before the next one starts
/// @param offsets     of the last read of each slot
template <class OnArrival>
double KeepFull(const Setting& setting, const Load& load, const Iov& iov, std::vector<size_t>& offsets,
                const OnArrival& on_arrival) {
  Ring ring(setting.mount, true, static_cast<int>(load.in_flight));
  const RegisteredFile file(setting.file, O_RDONLY);
  Offsets places(setting, load);
  std::vector<hf3fs_cqe> cqes(load.in_flight);
  offsets.resize(load.in_flight);
  const auto prepare = [&](size_t slot) {
    offsets[slot] = places.Next();
    ring.Prepare(iov, file, {slot * load.bytes, offsets[slot], load.bytes, slot});
  };
  const auto start = Clock::now();
  size_t moved = 0, under_way = load.in_flight;
  for (size_t slot = 0; slot < load.in_flight; ++slot) prepare(slot);
  ring.Submit();
  while (under_way > 0) {
    const bool is_over = Since(start) >= load.seconds;
    const size_t count = ring.Wait(cqes);
    for (const hf3fs_cqe& cqe : std::span(cqes).first(count)) {
      const auto slot = reinterpret_cast<uintptr_t>(cqe.userdata);
      if (cqe.result != static_cast<int64_t>(load.bytes)) throw std::runtime_error("a read was short");
      moved += load.bytes;
      on_arrival(slot);
      if (!is_over) prepare(slot);
    }
    if (is_over) {
      under_way -= count;
    } else {
      ring.Submit();
    }
  }
  return static_cast<double>(moved) / Since(start);
}

std::string Quote(const std::string& text) {
  std::string quoted = "'";
  for (const char letter : text) quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return quoted + "'";
}

/// Returns what a command prints.
///
/// @param status  status that waitpid() reports
std::string OutputOf(const std::string& command, int& status) {
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("Cannot start a shell.");
  std::string output;
  std::array<char, 4096> piece{};
  size_t count = 0;
  while ((count = std::fread(piece.data(), 1, piece.size(), pipe)) > 0) output.append(piece.data(), count);
  status = pclose(pipe);
  return output;
}

}  // namespace

uint8_t ByteOfFile(uint64_t index) { return PatternByte(1, index); }

double MeasureDirect(const Setting& setting, const Load& load) {
  const Iov iov(setting.mount, load.bytes * load.in_flight, setting.gpu);
  std::vector<size_t> offsets;
  const double rate = KeepFull(setting, load, iov, offsets, [](size_t) {});
  iov.SyncAfterIo();
  ExpectContents(*host::WrapPointer(iov.get().base, iov.get().size), 0, load.bytes, offsets[0]);
  return rate;
}

double MeasureRingAndCopy(const Setting& setting, const Load& load) {
  const Iov iov(setting.mount, load.bytes * load.in_flight, std::nullopt);
  const auto target = AllocateOnDevice(setting, load.bytes * load.in_flight);
  const auto* const bytes = reinterpret_cast<const std::byte*>(iov.get().base);
  std::vector<size_t> offsets;
  const double rate = KeepFull(setting, load, iov, offsets, [&](size_t slot) {
    target->CopyIn(slot * load.bytes, {bytes + slot * load.bytes, load.bytes});
  });
  ExpectContents(*target, 0, load.bytes, offsets[0]);
  return rate;
}

double MeasurePreadAndCopy(const Setting& setting, const Load& load) {
  const int fd = open(setting.file.c_str(), O_RDONLY | O_CLOEXEC | (setting.direct ? O_DIRECT : 0));
  if (fd < 0) throw host::Error::FromErrno("open", setting.file.string(), errno, "Name another folder");
  const auto target = AllocateOnDevice(setting, load.bytes * load.in_flight);
  const host::HostPages staging(load.bytes * load.in_flight);  // touched already
  Offsets places(setting, load);
  std::atomic<size_t> moved{0};
  std::atomic<bool> is_short{false};
  std::vector<size_t> offsets(load.in_flight);
  const auto work = [&](size_t slot, Clock::time_point start) {
    std::byte* const piece = staging.data() + slot * load.bytes;
    do {
      offsets[slot] = places.Next();
      const ssize_t count = pread(fd, piece, load.bytes, static_cast<off_t>(offsets[slot]));
      if (count != static_cast<ssize_t>(load.bytes)) is_short = true;
      target->CopyIn(slot * load.bytes, {piece, load.bytes});
      moved += load.bytes;
    } while (Since(start) < load.seconds && !is_short);
  };
  const auto start = Clock::now();
  std::vector<std::jthread> threads;
  for (size_t slot = 0; slot < load.in_flight; ++slot) threads.emplace_back(work, slot, start);
  threads.clear();  // joins
  const double rate = static_cast<double>(moved) / Since(start);
  close(fd);
  if (is_short) throw std::runtime_error("a read was short");
  ExpectContents(*target, 0, load.bytes, offsets[0]);
  return rate;
}

bool HasFio() {
  int status = 0;
  OutputOf("command -v fio", status);
  return status == 0;
}

double MeasureFio(const Setting& setting, const Load& load) {
  const auto number = [](auto value) { return std::to_string(value); };
  int status = 0;
  const std::string output = OutputOf(
      "env -u LD_PRELOAD fio --name=reads --readonly --ioengine=io_uring --invalidate=0 --norandommap "
      "--time_based"
      " --output-format=json --filename=" +
          Quote(setting.file.string()) + " --size=" + number(setting.file_bytes) +
          " --bs=" + number(load.bytes) + " --iodepth=" + number(load.in_flight) +
          " --rw=" + (load.is_random ? "randread" : "read") + " --direct=" + (setting.direct ? "1" : "0") +
          " --runtime=" + number(static_cast<int>(load.seconds * 1000)) + "ms 2>&1",
      status);
  const auto parsed = nlohmann::json::parse(output, nullptr, false);
  if (status != 0 || parsed.is_discarded()) throw std::runtime_error("fio failed: " + output);
  return parsed.at("jobs").at(0).at("read").at("bw_bytes").get<double>();
}

}  // namespace warpverbs::bench
