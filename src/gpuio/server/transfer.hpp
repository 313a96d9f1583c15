#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "gpuio/protocol/file_types.hpp"
#include "gpuio/server/arena.hpp"
#include "gpuio/server/disk.hpp"
#include "gpuio/server/scheduler.hpp"
#include "gpuio/server/server_file.hpp"
#include "warpverbs/transport/memory.hpp"
#include "warpverbs/transport/status.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// Buffers of the server, and what moves data between them and files.
struct DataPath {
  Arena& arena;
  Scheduler& scheduler;
  Disk& disk;
  uint64_t holes_made = 0;  ///< requests that may have made holes in files
};

/// Moves data between the server's buffers and the memory of one client.
class RemoteMemory {
 public:
  using Done = std::function<void(const transport::Status&)>;

  virtual ~RemoteMemory() = default;
  virtual void Write(const transport::RdmaMemory::View& from, const transport::RdmaRemoteBuffer& to,
                     Done done) = 0;
  virtual void Read(const transport::RdmaMemory::MutableView& to, const transport::RdmaRemoteBuffer& from,
                    Done done) = 0;

  /// Ends the client's connection after a failed operation. Then its NIC and ours use no memory of it.
  virtual void Fail(const transport::Status& status) = 0;

  /// Says whether the client is gone, so that nothing more is done for it.
  virtual bool failed() const = 0;

  /// Calls a function in another thread, because it blocks, and then one on the loop's thread.
  ///
  /// @param call  not called if the client is gone by then
  /// @param then  called in any case, unless the server ends; owns what both use
  virtual void InThread(std::function<void()> call, std::function<void()> then) = 0;
};

/// The end of a transfer.
struct TransferResult {
  int error = 0;       ///< an errno value
  uint64_t bytes = 0;  ///< moved, counted from the transfer's start
  std::vector<Range> holes{};
};

/// A part of a file and a buffer of a client.
struct TransferRequest {
  std::shared_ptr<ServerFile> file{};
  uint64_t offset = 0;
  transport::RdmaRemoteBuffer buffer{};
  Holes holes = Holes::kList;  ///< without effect on a write
};

/// A transfer moves in pieces of a buffer each, several at a time, so that disk and network work together.
///
/// It lives until its last piece is done. All calls and callbacks are on the loop's thread.
class Transfer : public BufferUser, public std::enable_shared_from_this<Transfer> {
 public:
  using Done = std::function<void(TransferResult)>;

  /// Pieces of one transfer under way.
  static constexpr size_t kWindow = 8;

  Transfer(DataPath& path, std::shared_ptr<Scheduler::Share> share, std::shared_ptr<RemoteMemory> remote,
           TransferRequest request, Done done);

  /// Starts the transfer; `done` may be called within.
  void Begin();

  bool WantsBuffer() const final;
  size_t Start(uint8_t* buffer) final;
  void Abandon() final;

 protected:
  /// A part of the file in a buffer.
  struct Piece {
    uint64_t begin = 0, end = 0;  ///< in the file
    int fd = -1;
    uint64_t io_begin = 0,
             io_end = 0;        ///< part that the disk moves: aligned for direct I/O, around the piece
    uint8_t* buffer = nullptr;  ///< has io_begin at its start
    uint64_t moved = 0;         ///< bytes that the disk has moved, from io_begin

    uint8_t* data() const { return buffer + (begin - io_begin); }
    size_t bytes() const { return static_cast<size_t>(end - begin); }
  };

  /// Sets end_, and calls Proceed() once, at once or later.
  virtual void Prepare() = 0;

  /// Starts to move pieces.
  ///
  /// @param error  an errno value: there is nothing to move
  void Proceed(int error);

  /// Plans the next piece from next_ to end_; empty: nothing is left.
  virtual std::optional<Piece> Plan() = 0;

  /// Moves a piece, and calls Finish() once.
  virtual void Move(Piece piece) = 0;
  virtual TransferResult Result() = 0;

  /// Ends a piece.
  void Finish(const Piece& piece);

  /// Notes an error of a piece; starts no more.
  void NoteError(uint64_t at, int error);

  /// Notes an error of the network, which ends the client's connection.
  void NoteError(uint64_t at, const transport::Status& status);

  /// Makes the file buffered if an error says that direct I/O does not work.
  ///
  /// @return  whether to try the piece again, which then uses buffered I/O
  bool FallBack(Piece& piece, int64_t result);

  /// Returns an owner of a transfer, for a callback.
  template <class Derived>
  static std::shared_ptr<Derived> Share(Derived* transfer) {
    return std::static_pointer_cast<Derived>(transfer->shared_from_this());
  }

  /// Returns the client's memory of a piece.
  transport::RdmaRemoteBuffer RemoteOf(const Piece& piece) const;

  /// Returns the end of a piece that starts at an offset: the next multiple of a chunk, or `limit`.
  static uint64_t ChunkEnd(uint64_t offset, uint64_t limit);

  DataPath& path_;
  const std::shared_ptr<RemoteMemory> remote_;
  const TransferRequest request_;
  uint64_t next_, end_ = 0;
  uint64_t failed_at_ = UINT64_MAX;
  int error_ = 0;

 private:
  void Advance();
  void EndIfDone();

  const std::shared_ptr<Scheduler::Share> share_;
  Done done_;
  std::optional<Piece> planned_;
  bool preparing_ = true;
  size_t under_way_ = 0;
  bool waiting_ = false;  // in the share
};

/// Reads a file into a client's memory.
class ReadTransfer : public Transfer {
 public:
  using Transfer::Transfer;

 private:
  void Prepare() override;
  std::optional<Piece> Plan() override;
  void Move(Piece piece) override;
  TransferResult Result() override;
  void Send(const Piece& piece, uint64_t valid);

  std::vector<ServerFile::Extent> extents_;  // of the part from next_ on; what is behind them is data
  size_t extent_ = 0;                        // the first that does not end before next_
  std::vector<Range> holes_;
  uint64_t end_of_file_ = UINT64_MAX;  // where a read found one
};

/// Writes a client's memory to a file.
class WriteTransfer : public Transfer {
 public:
  using Transfer::Transfer;

 private:
  void Prepare() override;
  std::optional<Piece> Plan() override;
  void Move(Piece piece) override;
  TransferResult Result() override;
  void Store(Piece piece);
};

}  // namespace warpverbs::inline v0_2::gpuio
