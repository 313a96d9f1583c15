#pragma once

#include <cstdint>

/// The causes of errors, and what each explains on both sides. All judgements follow from ConsequencesOf().
namespace soak {

/// What was done to a side, besides its own operations. Set before it is done.
enum Trouble : uint32_t {
  kKilled = 1,
  kStopped = 2,
  kLimited = 4,
  kLinkDown = 8,
  kRefused = 16,  ///< it could not be set up
  kGone = 32,     ///< its process has ended
  kLauncherKilled = 64,
};

/// What a side did to a pair of endpoints or transports. Set before it is done.
enum Deed : uint32_t {
  kBadRemoteKey = 1,
  kBadLocalKey = 2,
  kBadRequest = 4,  ///< an operation that the peer's NIC refuses: misaligned, or too long for its receive
  kDisconnected = 8,
  kForced = 16,       ///< softhca failed a WQE, see Link::forced
  kDestroyed = 32,    ///< destroyed or reset it while operations were pending
  kImpatient = 64,    ///< its NIC gives up so soon that a busy machine explains it
  kBoundedRnr = 128,  ///< its NIC gives up on a peer without a receive
};

enum Consequence : uint32_t {
  kRefusal = 1,   ///< a set-up fails, or a child's own
  kSilence = 2,   ///< a queue pair stops, and its peer's NIC gives up on it
  kShortage = 4,  ///< a transport breaks because it cannot get memory or a descriptor
};

/// Returns what a trouble of one side explains on both.
constexpr uint32_t ConsequencesOf(Trouble trouble) {
  switch (trouble) {
    case kKilled:
    case kStopped:  // the set-up of a queue pair sends frames, too
    case kLinkDown:
    case kRefused:
    case kGone:
      return kRefusal | kSilence;
    case kLimited:
      return kRefusal | kShortage;
    case kLauncherKilled:  // the next start of softhca may remove the launcher's folder
      return kRefusal;
  }
  return 0;
}

/// Returns what a deed of one side on a pair explains on both.
constexpr uint32_t ConsequencesOf(Deed deed) {
  switch (deed) {
    case kBadRemoteKey:
    case kBadRequest:  // the peer's queue pair may fail before it can send
    case kImpatient:
      return kRefusal | kSilence;
    case kBadLocalKey:
    case kDisconnected:
    case kForced:
    case kDestroyed:
    case kBoundedRnr:
      return kSilence;
  }
  return 0;
}

/// Returns what several causes of a kind explain.
///
/// @tparam Cause  Trouble or Deed
template <class Cause>
constexpr uint32_t ConsequencesOfAll(uint32_t causes) {
  uint32_t consequences = 0;
  for (uint32_t left = causes; left != 0; left &= left - 1)
    consequences |= ConsequencesOf(static_cast<Cause>(left & (0 - left)));
  return consequences;
}

}  // namespace soak
