#include "sender.hpp"

#include <algorithm>
#include <string>

#include "words.hpp"

namespace warpverbs::transport {
namespace {

Status TookTooLong(const Transfer& transfer) {
  return {Code::kTimeout, std::string(transfer.is_read ? "the read of " : "the write of ") +
                              std::to_string(transfer.pieces.bytes) + " bytes has not ended within " +
                              InWords(transfer.waiter.timeout) +
                              ": give it more time, or see whether the peer and its link are there"};
}

}  // namespace

void Sender::Open(const std::vector<Lane*>& lanes) {
  lanes_ = lanes;
  for (const Lane* lane : lanes_) piece_bytes_ = std::min<uint64_t>(piece_bytes_, lane->max_message());
  Pump();
}

void Sender::Submit(Transfer& transfer, Clock::time_point deadline) {
  transfers_.Append(transfer);
  deadlines_.Add(transfer, deadline);
  queue_.Append(transfer);
  Pump();
}

void Sender::Pump() {
  if (lanes_.empty()) return;
  while (!queue_.empty()) {
    Transfer& transfer = *queue_.first();
    Start(transfer);
    if (transfer.cancelled) LeaveOut(transfer);
    while (!transfer.all_posted() && PostNext(transfer)) {
    }
    if (!transfer.all_posted()) break;
    queue_.Remove(transfer);
    if (transfer.cancelled && transfer.under_way == 0) Retire(transfer);
  }
  for (Lane* lane : lanes_) lane->Ring();
}

void Sender::Start(Transfer& transfer) {
  if (transfer.started) return;
  transfer.started = true;
  transfer.pieces.piece_bytes = piece_bytes_;
  transfer.pieces.lanes = static_cast<uint32_t>(lanes_.size());
  transfer.pieces.first_lane = next_lane_;
  next_lane_ = transfer.pieces.Lane(transfer.pieces.count());
  if (transfer.notify) transfer.sequence = next_sequence_++;
}

/// Of a cancelled transfer nothing is sent but that it is void, to a peer that counts its parts: by the last
/// piece of each lane. The lane whose turn it was is the next one's: a lane that stands still is not passed
/// over.
void Sender::LeaveOut(Transfer& transfer) {
  const Pieces& pieces = transfer.pieces;
  if (!transfer.notify) next_lane_ = pieces.Lane(transfer.next_piece);
  const uint64_t sent_last = transfer.notify ? pieces.lanes_used() : 0;
  transfer.next_piece = std::max(transfer.next_piece, pieces.count() - sent_last);
}

/// Posts a piece, or of a cancelled transfer that its part is void.
///
/// @return  false: the lane has no room
bool Sender::PostNext(Transfer& transfer) {
  const Pieces& pieces = transfer.pieces;
  const uint64_t piece = transfer.next_piece;
  Lane& lane = *lanes_[pieces.Lane(piece)];
  if (lane.room() == 0) return false;
  const bool announces = transfer.notify && pieces.IsLastOfLane(piece);
  const Announcement part{transfer.cancelled ? Announcement::Kind::kVoidPart : Announcement::Kind::kPart,
                          static_cast<uint8_t>(pieces.lanes_used()), transfer.sequence};
  if (transfer.cancelled) {
    lane.PostVoid(transfer, part);
  } else {
    lane.PostPiece(transfer, pieces.Offset(piece), pieces.Size(piece), announces ? &part : nullptr);
  }
  ++transfer.next_piece;
  return true;
}

void Sender::OnDone(Transfer& transfer, std::vector<Finished>& finished) {
  if (--transfer.under_way != 0 || !transfer.all_posted()) return;
  transfer.waiter.Answer({}, finished);
  Retire(transfer);
}

Clock::time_point Sender::Expire(Clock::time_point now, std::vector<Finished>& finished) {
  if (now < deadlines_.next()) return deadlines_.next();
  while (deadlines_.next() <= now) {
    Transfer& late = *deadlines_.first();
    late.waiter.Answer(TookTooLong(late), finished);
    deadlines_.Remove(late);
    Cancel(late);
  }
  Pump();
  return deadlines_.next();
}

void Sender::Cancel(Transfer& transfer) {
  transfer.cancelled = true;
  if (transfer.started) return;  // what is posted completes; Pump() sees to the rest
  queue_.Remove(transfer);
  Retire(transfer);
}

void Sender::Retire(Transfer& transfer) {
  transfers_.Remove(transfer);
  deadlines_.Remove(transfer);
  pool_.Give(transfer);
}

void Sender::Drop(const Status& status, std::vector<Finished>& finished) {
  lanes_.clear();
  queue_.Clear();
  transfers_.ForEach([&](Transfer& transfer) {
    transfer.waiter.Answer(status, finished);
    Retire(transfer);
  });
}

}  // namespace warpverbs::transport
