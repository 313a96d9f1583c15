#include "sender.hpp"

#include <algorithm>
#include <string>

namespace warpverbs::inline v0_2::transport {
namespace {

Status TimeoutStatus(const Transfer& transfer) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < transfer.parts(); ++i) bytes += transfer.part(i).bytes;
  return {Code::kTimeout, std::string(transfer.is_read ? "the read of " : "the write of ") +
                              std::to_string(bytes) + " bytes has not ended within " +
                              ToString(transfer.pending.timeout) +
                              ": choose a longer timeout, or check the peer and its link"};
}

}  // namespace

void Sender::Open(const std::vector<Channel*>& channels) {
  channels_ = channels;
  for (const Channel* channel : channels_)
    piece_bytes_ = std::min<uint64_t>(piece_bytes_, channel->max_message());
  PostQueued();
}

void Sender::Submit(Transfer& transfer, Clock::time_point deadline) {
  transfers_.Append(transfer);
  deadlines_.Add(transfer, deadline);
  queue_.Append(transfer);
  PostQueued();
}

void Sender::PostQueued() {
  if (channels_.empty()) return;
  while (!queue_.empty()) {
    Transfer& transfer = *queue_.first();
    Start(transfer);
    if (transfer.cancelled) SkipUnposted(transfer);
    while (!transfer.all_posted() && PostNext(transfer)) {
    }
    if (!transfer.all_posted()) break;
    queue_.Remove(transfer);
    if (transfer.cancelled && transfer.outstanding == 0) Release(transfer);
  }
  for (Channel* channel : channels_) channel->Ring();
}

void Sender::Start(Transfer& transfer) {
  if (transfer.started) return;
  transfer.started = true;
  transfer.pieces.count = 0;
  for (size_t i = 0; i < transfer.parts(); ++i)
    transfer.pieces.count += Pieces::CountOf(transfer.part(i).bytes, piece_bytes_);
  transfer.pieces.channels = static_cast<uint32_t>(channels_.size());
  transfer.pieces.first_channel = next_channel_;
  next_channel_ = transfer.pieces.Channel(transfer.pieces.count);
  if (transfer.notify) transfer.sequence = next_sequence_++;
}

// A cancelled transfer sends nothing more, except to a peer that counts its parts: there the last piece of
// each channel says that the transfer was cancelled. Without a notification the next transfer starts at the
// channel whose turn it was, so a blocked channel is not passed over.
void Sender::SkipUnposted(Transfer& transfer) {
  const Pieces& pieces = transfer.pieces;
  if (!transfer.notify) next_channel_ = pieces.Channel(transfer.next_piece);
  const uint64_t last_pieces = transfer.notify ? pieces.channels_used() : 0;
  transfer.next_piece = std::max(transfer.next_piece, pieces.count - last_pieces);
}

/// Posts the next piece of a transfer, or the end of a cancelled one.
///
/// @return  false: the channel has no room
bool Sender::PostNext(Transfer& transfer) {
  const Pieces& pieces = transfer.pieces;
  const uint64_t piece = transfer.next_piece;
  Channel& channel = *channels_[pieces.Channel(piece)];
  if (channel.room() == 0) return false;
  const bool announces = transfer.notify && pieces.IsLastOnChannel(piece);
  const ImmediateData announced{
      transfer.cancelled ? ImmediateData::Kind::kCancelledPart : ImmediateData::Kind::kPart,
      static_cast<uint8_t>(pieces.channels_used()), transfer.sequence};
  if (transfer.cancelled) {
    channel.PostCancelled(transfer, announced);
  } else {
    const Part& memory = transfer.part(transfer.next_part);
    const uint64_t offset = transfer.next_offset, bytes = std::min(piece_bytes_, memory.bytes - offset);
    channel.PostPiece(transfer, memory, {offset, bytes}, announces ? &announced : nullptr);
    transfer.next_offset += bytes;
    if (transfer.next_offset == memory.bytes) {
      ++transfer.next_part;
      transfer.next_offset = 0;
    }
  }
  ++transfer.next_piece;
  return true;
}

void Sender::OnDone(Transfer& transfer, std::vector<Finished>& finished) {
  if (--transfer.outstanding != 0 || !transfer.all_posted()) return;
  transfer.pending.Complete({}, finished);
  Release(transfer);
}

Clock::time_point Sender::Expire(Clock::time_point now, std::vector<Finished>& finished) {
  if (now < deadlines_.next()) return deadlines_.next();
  while (deadlines_.next() <= now) {
    Transfer& late = *deadlines_.first();
    late.pending.Complete(TimeoutStatus(late), finished);
    deadlines_.Remove(late);
    Cancel(late);
  }
  PostQueued();
  return deadlines_.next();
}

void Sender::Cancel(Transfer& transfer) {
  transfer.cancelled = true;
  if (transfer.started) return;  // posted pieces complete, and PostQueued() skips the others
  queue_.Remove(transfer);
  Release(transfer);
}

void Sender::Release(Transfer& transfer) {
  transfers_.Remove(transfer);
  deadlines_.Remove(transfer);
  pool_.Give(transfer);
}

void Sender::Drop(const Status& status, std::vector<Finished>& finished) {
  channels_.clear();
  queue_.Clear();
  transfers_.ForEach([&](Transfer& transfer) {
    transfer.pending.Complete(status, finished);
    Release(transfer);
  });
}

}  // namespace warpverbs::inline v0_2::transport
