#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

/// What the processes of a round tell each other and their controller, in a file that all of them map. So
/// what a process did before it was killed is known.
namespace soak {

inline constexpr uint32_t kMaxPairs = 4;
inline constexpr uint32_t kMaxPosters = 3;
inline constexpr size_t kSlotSpace = 256 * 1024;  ///< memory of one poster of one endpoint at its peer
inline constexpr size_t kSideSpace = kMaxPairs * kMaxPosters * kSlotSpace;

enum class Tally : uint32_t {
  kLives,
  kEndpoints,
  kTransports,
  kForks,
  kMessagesReceived,
  kNotifications,
  kRefusedSetUps,
  kBytesCompared,
  kKills,
  kStops,
  kLimits,
  kPrograms,
  kCount,
};

enum class OperationKind : uint32_t {
  kWrite,
  kWriteOfTwoParts,
  kWriteInline,
  kWriteImm,
  kRead,
  kSend,
  kSendImm,
  kFetchAdd,
  kFetchAdd32,
  kMaskedFetchAdd,
  kCompareSwap,
  kCompareSwap32,
  kMaskedCompareSwap,
  kSwap,
  kFetchAnd,
  kFetchOr,
  kFetchXor,
  kPutSignal,
  kNop,
  kFence,
  kWaitCq,
  kBatch,
  kTransportWrite,
  kTransportRead,
  kTransportWait,
  kCount,
};

/// Statuses by which operations ended.
enum : uint32_t { kTransportCodes = 256, kResults = 256 + 8 };

struct Counts {
  std::array<std::atomic<uint64_t>, static_cast<size_t>(Tally::kCount)> tallies;
  std::array<std::atomic<uint64_t>, static_cast<size_t>(OperationKind::kCount)> operations;
  /// Ends by syndrome (0: success), then by the code of a transport.
  std::array<std::atomic<uint64_t>, kResults> results;

  void Add(Tally tally, uint64_t by = 1) { tallies[static_cast<size_t>(tally)] += by; }
  void Add(OperationKind kind) { ++operations[static_cast<size_t>(kind)]; }
};

/// One side's part of a pair.
struct Link {
  std::atomic<uint32_t> deeds;   ///< bits of Deed
  std::atomic<uint32_t> forced;  ///< syndrome
  /// Messages that each poster has posted, and those of them that are known to have arrived.
  std::array<std::atomic<uint32_t>, kMaxPosters> posted, arrived;
};

/// A text that one process writes and others read, once in each life.
struct Text {
  std::atomic<uint64_t> life;  ///< counts from 1; 0: there is none yet
  std::array<char, 4000> text;

  void Set(uint64_t of_life, std::string_view words) {
    const size_t bytes = words.copy(text.data(), text.size() - 1);
    text[bytes] = 0;
    life.store(of_life, std::memory_order_release);
  }
  std::string Get() const { return text.data(); }
};

struct Side {
  std::atomic<int> pid;
  std::atomic<uint32_t> troubles;  ///< bits of Trouble
  std::atomic<uint64_t> stage;     ///< barriers that it has reached
  std::atomic<bool> done;
  std::atomic<bool> enough;  ///< its lives have taken long enough; of side 0
  Text address;              ///< where the side listens
  std::array<Text, kMaxPairs> urls, keys;
  std::array<Link, kMaxPairs> links;
};

struct Board {
  Counts counts;
  std::array<Side, 2> sides;
  std::array<std::array<uint8_t, kSideSpace>, 2> memory;  ///< memory of each side that its peer may use
};

/// A file of a process's shared memory; unmapped at the end.
class BoardFile {
 public:
  /// Creates the file, all zero, with space for all of it: a page without space would end its user by SIGBUS.
  ///
  /// @errors  std::system_error
  static BoardFile Create(const std::string& path);

  /// @errors  std::system_error
  static BoardFile Open(const std::string& path);
  ~BoardFile();
  BoardFile(BoardFile&& other) noexcept : board_(other.board_) { other.board_ = nullptr; }
  BoardFile(const BoardFile&) = delete;

  Board& operator*() const { return *board_; }
  Board* operator->() const { return board_; }

 private:
  explicit BoardFile(int file);
  Board* board_;
};

const char* ToString(Tally tally);
const char* ToString(OperationKind kind);

}  // namespace soak
