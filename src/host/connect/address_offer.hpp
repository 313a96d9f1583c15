#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "connect/byte_stream.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/gid.hpp"

namespace warpverbs::inline v0_2::host {

/// The GIDs and partition keys that one side's endpoints may use. Crosses machines as checked bytes, with
/// each port's GIDs only once.
class AddressOffer {
 public:
  static constexpr size_t kMaxGids = 256;  ///< limit per port: a queue pair names a GID in 8 bits

  /// @errors  Error: a partition key cannot be read
  explicit AddressOffer(std::span<Endpoint* const> endpoints);

  /// Writes the length (4 bytes) and as many bytes: the number of tables (2); for each table the number of
  /// GIDs (2) and each GID's type (1) and address (16); for each endpoint its table (2) and partition key
  /// (2). Then the CRC-32 (4).
  void Put(ByteWriter& message) const;

  /// Reads what Put() wrote.
  ///
  /// @param endpoints  expected number of endpoints
  /// @return  empty if the bytes are damaged or not of this format
  static std::optional<AddressOffer> Get(ByteReader& message, size_t endpoints);

  std::span<const GidEntry> GidsOf(size_t endpoint) const { return tables_[endpoints_[endpoint].table]; }
  uint16_t PartitionKeyOf(size_t endpoint) const { return endpoints_[endpoint].partition_key; }

  /// Returns for each endpoint the best GID pair with its peer, or nothing if no pair matches.
  std::vector<std::optional<GidPair>> PairsWith(const AddressOffer& peers) const;

 private:
  struct One {
    uint16_t table = 0;
    uint16_t partition_key = 0;
  };

  AddressOffer() = default;

  std::vector<std::vector<GidEntry>> tables_;
  std::vector<One> endpoints_;
};

/// Returns why two endpoints with these partition keys cannot communicate: "0xffff here and 0x8001 there are
/// in different partitions". Empty if they can.
std::string PartitionConflict(uint16_t here, uint16_t there);

}  // namespace warpverbs::inline v0_2::host
