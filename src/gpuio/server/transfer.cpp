#include "gpuio/server/transfer.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include "gpuio/protocol/messages.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

uint64_t AlignDown(uint64_t value, uint64_t alignment) { return value / alignment * alignment; }
uint64_t AlignUp(uint64_t value, uint64_t alignment) { return AlignDown(value + alignment - 1, alignment); }

}  // namespace

Transfer::Transfer(DataPath& path, std::shared_ptr<Scheduler::Share> share,
                   std::shared_ptr<RemoteMemory> remote, TransferRequest request, Done done)
    : path_(path),
      remote_(std::move(remote)),
      request_(std::move(request)),
      next_(request_.offset),
      share_(std::move(share)),
      done_(std::move(done)) {}

void Transfer::Begin() { Prepare(); }

void Transfer::Proceed(int error) {
  const auto keep = shared_from_this();
  preparing_ = false;
  if (error != 0) NoteError(request_.offset, error);
  Advance();
  EndIfDone();
}

bool Transfer::WantsBuffer() const { return planned_ && under_way_ < kWindow && !remote_->failed(); }

/// Plans the next piece, and waits for a buffer for it.
void Transfer::Advance() {
  if (!planned_ && error_ == 0) {
    planned_ = Plan();
    if (planned_) next_ = planned_->end;
  }
  if (error_ != 0 || remote_->failed()) planned_.reset();
  if (!WantsBuffer() || std::exchange(waiting_, true)) return;
  path_.scheduler.Add(share_, shared_from_this());
}

size_t Transfer::Start(uint8_t* buffer) {
  Piece piece = *std::exchange(planned_, std::nullopt);
  piece.buffer = buffer;
  ++under_way_;
  // Plans without Advance(): the scheduler itself keeps this as long as it wants more.
  planned_ = error_ == 0 ? Plan() : std::nullopt;
  if (planned_) next_ = planned_->end;
  waiting_ = WantsBuffer();
  const size_t bytes = piece.bytes();
  Move(piece);
  return bytes;
}

void Transfer::Abandon() {
  const auto keep = shared_from_this();
  planned_.reset();
  EndIfDone();
}

void Transfer::Finish(const Piece& piece) {
  const auto keep = shared_from_this();
  --under_way_;
  path_.scheduler.Return(*share_, piece.buffer);
  Advance();
  EndIfDone();
}

void Transfer::EndIfDone() {
  if (preparing_ || under_way_ != 0 || planned_ || !done_) return;
  std::exchange(done_, {})(Result());
}

void Transfer::NoteError(uint64_t at, int error) {
  if (at >= failed_at_) return;
  failed_at_ = at;
  error_ = error;
}

void Transfer::NoteError(uint64_t at, const transport::Status& status) {
  // Nothing was sent: the request's key is not for all NICs of the connection.
  if (status == transport::Code::kInvalid) return NoteError(at, EINVAL);
  // The client's NIC refuses a key or a range that a request named. The first to learn of it is to blame, and
  // the whole of it; the others of the connection are not.
  const bool is_to_blame = status == transport::Code::kAccessDenied && !remote_->failed();
  NoteError(is_to_blame ? request_.offset : at, is_to_blame ? EFAULT : EIO);
  remote_->Fail(status);
}

bool Transfer::FallBack(Piece& piece, int64_t result) {
  if (result != -EINVAL || piece.fd == request_.file->fd()) return false;
  request_.file->UseBuffered();
  piece.fd = request_.file->fd();
  piece.moved = 0;
  return true;
}

transport::RdmaRemoteBuffer Transfer::RemoteOf(const Piece& piece) const {
  return {static_cast<uint8_t*>(request_.buffer.ptr) + (piece.begin - request_.offset),
          request_.buffer.access_key, piece.bytes()};
}

uint64_t Transfer::ChunkEnd(uint64_t offset, uint64_t limit) {
  return std::min(limit, AlignDown(offset, kChunkBytes) + kChunkBytes);
}

// The size and the extents of a file may be far away, on another machine: the loop does not wait for them.
void ReadTransfer::Prepare() {
  end_ = request_.offset + request_.buffer.len;
  const bool looks = request_.holes == Holes::kListExactly;
  if (!looks && request_.file->IsKnownData(request_.offset, end_, path_.holes_made)) return Proceed(0);
  const bool lists_holes = request_.holes != Holes::kSend;
  const auto map = std::make_shared<ServerFile::Map>();
  const uint64_t holes_made = path_.holes_made;
  remote_->InThread(
      [self = Share(this), map, lists_holes] {
        *map = self->request_.file->MapPart(self->request_.offset,
                                            self->request_.offset + self->request_.buffer.len,
                                            lists_holes ? protocol::kMaxHoles : 0);
      },
      [self = Share(this), map, holes_made, lists_holes] {
        self->request_.file->Remember(*map, holes_made);
        self->end_ = std::max(std::min(map->bytes, self->end_), self->request_.offset);
        if (lists_holes) self->extents_ = std::move(map->extents);
        self->Proceed(map->error);
      });
}

std::optional<Transfer::Piece> ReadTransfer::Plan() {
  end_ = std::min(end_, std::max(end_of_file_, next_));
  while (next_ < end_) {
    const ServerFile& file = *request_.file;
    while (extent_ < extents_.size() && extents_[extent_].end <= next_) ++extent_;
    const auto extent = extent_ < extents_.size() ? extents_[extent_] : ServerFile::Extent{false, end_};
    const uint64_t extent_end = std::min(extent.end, end_);
    if (extent.hole) {
      holes_.push_back({next_ - request_.offset, extent_end - next_});
      next_ = extent_end;
      continue;
    }
    const uint64_t end = ChunkEnd(next_, extent_end), alignment = file.alignment();
    return Piece{.begin = next_,
                 .end = end,
                 .fd = file.direct_fd(),
                 .io_begin = AlignDown(next_, alignment),
                 .io_end = AlignUp(end, alignment)};
  }
  return std::nullopt;
}

void ReadTransfer::Move(Piece piece) {
  const std::span<uint8_t> memory(piece.buffer + piece.moved,
                                  static_cast<size_t>(piece.io_end - piece.io_begin - piece.moved));
  const uint64_t at = piece.io_begin + piece.moved;
  path_.disk.Read(piece.fd, memory, at, [self = Share(this), piece](int64_t result) mutable {
    if (self->remote_->failed()) return self->Finish(piece);
    if (result == -EAGAIN || result == -EINTR || self->FallBack(piece, result)) return self->Move(piece);
    if (result < 0) {
      self->NoteError(piece.begin, static_cast<int>(-result));
      return self->Finish(piece);
    }
    piece.moved += static_cast<uint64_t>(result);
    const uint64_t have = piece.io_begin + piece.moved;
    // Direct I/O cannot go on behind an odd end, which is that of the file.
    const bool odd = have % self->request_.file->alignment() != 0;
    if (have < piece.end && result > 0 && !odd) return self->Move(piece);
    if (have < piece.end) self->end_of_file_ = std::min(self->end_of_file_, have);
    self->Send(piece, std::min(have, piece.end));
  });
}

void ReadTransfer::Send(const Piece& piece, uint64_t valid_end) {
  if (valid_end <= piece.begin || remote_->failed()) return Finish(piece);
  Piece valid = piece;
  valid.end = valid_end;
  remote_->Write(path_.arena.View(valid.data(), valid.bytes()), RemoteOf(valid),
                 [self = Share(this), piece](const transport::Status& status) {
                   if (!status.ok()) self->NoteError(piece.begin, status);
                   self->Finish(piece);
                 });
}

TransferResult ReadTransfer::Result() {
  if (error_ != 0) return {.error = error_};
  const uint64_t end = std::max(std::min(end_, end_of_file_), request_.offset);
  const uint64_t bytes = end - request_.offset;
  while (!holes_.empty() && holes_.back().offset >= bytes) holes_.pop_back();
  if (!holes_.empty()) holes_.back().bytes = std::min(holes_.back().bytes, bytes - holes_.back().offset);
  return {.bytes = bytes, .holes = std::move(holes_)};
}

void WriteTransfer::Prepare() {
  end_ = request_.offset + request_.buffer.len;
  Proceed(0);
}

// Odd ends are buffered, what is between them may be direct. They share no page: the buffered piece would
// read the page before the direct one has written it, and write it back afterwards.
std::optional<Transfer::Piece> WriteTransfer::Plan() {
  static const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (next_ >= end_) return std::nullopt;
  const ServerFile& file = *request_.file;
  const uint64_t alignment = file.alignment() == 1 ? 1 : std::max<uint64_t>(file.alignment(), page_bytes);
  uint64_t end = ChunkEnd(next_, end_);
  int fd = file.direct_fd();
  if (next_ % alignment != 0) {
    end = std::min(end, AlignUp(next_, alignment));
    fd = file.fd();
  } else if (AlignDown(end, alignment) > next_) {
    end = AlignDown(end, alignment);
  } else if (end % alignment != 0) {
    fd = file.fd();
  }
  return Piece{.begin = next_, .end = end, .fd = fd, .io_begin = next_, .io_end = end};
}

void WriteTransfer::Move(Piece piece) {
  remote_->Read(path_.arena.View(piece.data(), piece.bytes()), RemoteOf(piece),
                [self = Share(this), piece](const transport::Status& status) {
                  if (status.ok()) return self->Store(piece);
                  self->NoteError(piece.begin, status);
                  self->Finish(piece);
                });
}

void WriteTransfer::Store(Piece piece) {
  // A client that is gone may be writing the same part over another connection already.
  if (remote_->failed()) return Finish(piece);
  const std::span<const uint8_t> memory(piece.buffer + piece.moved,
                                        static_cast<size_t>(piece.io_end - piece.io_begin - piece.moved));
  path_.disk.Write(piece.fd, memory, piece.io_begin + piece.moved,
                   [self = Share(this), piece](int64_t result) mutable {
                     if (result == -EAGAIN || result == -EINTR || self->FallBack(piece, result))
                       return self->Store(piece);
                     if (result > 0) piece.moved += static_cast<uint64_t>(result);
                     const uint64_t at = piece.io_begin + piece.moved;
                     if (result > 0 && at < piece.end) return self->Store(piece);
                     if (result <= 0) self->NoteError(at, result == 0 ? EIO : static_cast<int>(-result));
                     self->Finish(piece);
                   });
}

TransferResult WriteTransfer::Result() {
  if (error_ == 0) return {.bytes = end_ - request_.offset};
  if (failed_at_ > request_.offset && (error_ == ENOSPC || error_ == EDQUOT || error_ == EFBIG))
    return {.bytes = failed_at_ - request_.offset};
  return {.error = error_};
}

}  // namespace warpverbs::inline v0_2::gpuio
