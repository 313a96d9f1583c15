#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace softhca {

using FrameBytes = std::vector<uint8_t>;

/// What the cable did to a captured frame.
enum class Fate { kForward, kDrop, kDuplicate, kSwap, kCorrupt };

struct CapturedFrame {
  FrameBytes bytes;
  bool to_server = false;
  Fate fate = Fate::kForward;
  uint8_t opcode = 0;  ///< from the .json
  uint32_t psn = 0;    ///< from the .json
};

/// One of the two queue pairs, and its memory.
struct CapturedPeer {
  uint32_t qpn = 0;
  uint32_t psn = 0;  ///< first PSN that it sends
  uint32_t rkey = 0;
  uint64_t address = 0;
};

/// A conversation between two rdma_rxe devices; README.md describes the capture.
struct Capture {
  std::string name;
  CapturedPeer client, server;
  uint32_t path_mtu = 0;
  uint8_t timeout = 0, retry_count = 0, rnr_retry = 0, min_rnr_timer = 0;
  uint8_t seed = 0;  ///< seed of the client's memory; the server's is 128 more
  std::vector<CapturedFrame> frames;
};

/// Returns the names of all conversations, sorted.
std::vector<std::string> CaptureNames();
Capture ReadCapture(const std::string& name);

/// Returns the frames that the server, or the client, received: in that order, duplicates included.
std::vector<CapturedFrame> Received(const Capture& capture, bool by_server);

/// Returns the initial contents of a conversation's memory.
std::vector<uint8_t> InitialBytes(uint8_t seed, size_t bytes);

/// Reads the frames of a pcap file.
///
/// @param file  path, relative to the folder of captures
/// @errors      std::runtime_error: it is not an Ethernet pcap file, or it is cut short
std::vector<FrameBytes> ReadPcap(const std::string& file);

}  // namespace softhca
