#include "captures/capture.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace softhca {
namespace {

const std::filesystem::path kFolder = CAPTURES_FOLDER;

constexpr uint32_t kMicroseconds = 0xa1b2c3d4, kNanoseconds = 0xa1b23c4d;

struct PcapHeader {
  uint32_t magic;
  uint16_t major, minor;
  uint32_t zone, accuracy, longest, link_type;
};

struct PcapRecord {
  uint32_t seconds, fraction, captured, bytes;
};

template <class T>
T ReadAs(std::istream& in, const std::string& file) {
  T value;
  if (!in.read(reinterpret_cast<char*>(&value), sizeof value))
    throw std::runtime_error(file + " is cut short");
  return value;
}

Fate FateOf(const std::string& action) {
  if (action == "drop") return Fate::kDrop;
  if (action == "dup") return Fate::kDuplicate;
  if (action == "swap") return Fate::kSwap;
  if (action == "corrupt") return Fate::kCorrupt;
  if (action == "forward") return Fate::kForward;
  throw std::runtime_error("unknown action " + action);
}

CapturedPeer PeerOf(const nlohmann::json& meta, const std::string& side) {
  return {meta.at(side + "_qpn"), meta.at(side + "_psn"), meta.at(side + "_rkey"), meta.at(side + "_addr")};
}

}  // namespace

std::vector<std::string> CaptureNames() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Capture ReadCapture(const std::string& name) {
  std::ifstream in(kFolder / (name + ".json"));
  const auto json = nlohmann::json::parse(in);
  const auto& meta = json.at("meta");
  Capture capture{.name = name,
                  .client = PeerOf(meta, "client"),
                  .server = PeerOf(meta, "server"),
                  .path_mtu = meta.at("path_mtu"),
                  .timeout = meta.at("timeout"),
                  .retry_count = meta.at("retry_cnt"),
                  .rnr_retry = meta.at("rnr_retry"),
                  .min_rnr_timer = meta.at("min_rnr_timer"),
                  .seed = meta.at("seed"),
                  .frames = {}};
  std::vector<FrameBytes> frames = ReadPcap(name + ".pcap");
  const auto& facts = json.at("frames");
  if (facts.size() != frames.size())
    throw std::runtime_error(name + ": the .json and the .pcap have different numbers of frames");
  for (size_t i = 0; i < frames.size(); ++i) {
    capture.frames.push_back({std::move(frames[i]), facts[i].at("dir") == "c2s",
                              FateOf(facts[i].at("action")), facts[i].at("opcode"), facts[i].at("psn")});
  }
  return capture;
}

std::vector<CapturedFrame> Received(const Capture& capture, bool by_server) {
  std::vector<CapturedFrame> received, held_back;
  for (const CapturedFrame& frame : capture.frames) {
    if (frame.to_server != by_server || frame.fate == Fate::kDrop) continue;
    if (frame.fate == Fate::kSwap) {
      held_back.push_back(frame);
      continue;
    }
    received.insert(received.end(), frame.fate == Fate::kDuplicate ? 2 : 1, frame);
    received.insert(received.end(), held_back.begin(), held_back.end());
    held_back.clear();
  }
  return received;
}

std::vector<uint8_t> InitialBytes(uint8_t seed, size_t bytes) {
  std::vector<uint8_t> contents(bytes);
  for (size_t i = 0; i < bytes; ++i) contents[i] = static_cast<uint8_t>(seed + 7 * i + (i >> 8));
  return contents;
}

std::vector<FrameBytes> ReadPcap(const std::string& file) {
  std::ifstream in(kFolder / file, std::ios::binary);
  const auto header = ReadAs<PcapHeader>(in, file);
  if ((header.magic != kMicroseconds && header.magic != kNanoseconds) || header.link_type != 1)
    throw std::runtime_error(file + " is not an Ethernet capture");
  std::vector<FrameBytes> frames;
  while (in.peek() != std::ifstream::traits_type::eof()) {
    FrameBytes bytes(ReadAs<PcapRecord>(in, file).captured);
    if (!in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()))) {
      throw std::runtime_error(file + " is cut short");
    }
    frames.push_back(std::move(bytes));
  }
  return frames;
}

}  // namespace softhca
