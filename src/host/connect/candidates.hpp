#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "connect/byte_stream.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/gid_pair.hpp"

namespace warpverbs::host {

/// What the endpoints of one side may send from, and their partition keys. It crosses machines as checked
/// bytes, with the GIDs of each port once.
class Candidates {
 public:
  static constexpr size_t kMostGids = 256;  ///< of a port: a queue pair names them in 8 bits

  /// @errors  Error: a partition key cannot be read
  explicit Candidates(std::span<Endpoint* const> endpoints);

  /// Length (4 bytes), then so many: number of tables (2), of each the number of GIDs (2) and each one's type
  /// (1) and address (16); of each endpoint its table (2) and its partition key (2). Then the CRC-32 (4).
  void Put(ByteWriter& message) const;

  /// Takes what Put() wrote.
  ///
  /// @param endpoints  of whom it must be
  /// @return  empty: it is damaged, or of something else
  static std::optional<Candidates> Get(ByteReader& message, size_t endpoints);

  std::span<const GidEntry> GidsOf(size_t endpoint) const { return tables_[endpoints_[endpoint].table]; }
  uint16_t PartitionKeyOf(size_t endpoint) const { return endpoints_[endpoint].partition_key; }

  /// From where each endpoint sends to its peer, and that to it; empty: from nowhere.
  std::vector<std::optional<GidPair>> PairsWith(const Candidates& peers) const;

 private:
  struct One {
    uint16_t table = 0;
    uint16_t partition_key = 0;
  };

  Candidates() = default;

  std::vector<std::vector<GidEntry>> tables_;
  std::vector<One> endpoints_;
};

/// Why two endpoints with these partition keys cannot talk: "0xffff here and 0x8001 there are of two
/// partitions". Empty: they can.
std::string PartitionConflict(uint16_t here, uint16_t there);

}  // namespace warpverbs::host
