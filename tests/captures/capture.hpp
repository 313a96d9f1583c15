#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace softhca {

using FrameBytes = std::vector<uint8_t>;

/// What became of a captured frame on its way.
enum class Fate { kForward, kDrop, kDuplicate, kSwap, kCorrupt };

struct CapturedFrame {
  FrameBytes bytes;
  bool to_server = false;
  Fate fate = Fate::kForward;
  uint8_t opcode = 0;  ///< as the .json has it
  uint32_t psn = 0;    ///< as the .json has it
};

/// A queue pair of the two that talk, and its memory.
struct CapturedPeer {
  uint32_t qpn = 0;
  uint32_t psn = 0;  ///< the first that it sends
  uint32_t rkey = 0;
  uint64_t address = 0;
};

/// A conversation of two rdma_rxe: README.md says how it was captured.
struct Capture {
  std::string name;
  CapturedPeer client, server;
  uint32_t path_mtu = 0;
  uint8_t timeout = 0, retry_count = 0, rnr_retry = 0, min_rnr_timer = 0;
  uint8_t seed = 0;  ///< of the client's bytes; the server's is 128 more
  std::vector<CapturedFrame> frames;
};

/// The names of all conversations, sorted.
std::vector<std::string> CaptureNames();
Capture ReadCapture(const std::string& name);

/// What the server (or the client) got, in the order and as often as it got it.
std::vector<CapturedFrame> Received(const Capture& capture, bool by_server);

/// What a buffer of such a conversation held at first.
std::vector<uint8_t> InitialBytes(uint8_t seed, size_t bytes);

/// The frames of a file, by default in the folder of captures.
///
/// @errors  std::runtime_error: it is no pcap file
std::vector<FrameBytes> ReadPcap(const std::string& file);

}  // namespace softhca
