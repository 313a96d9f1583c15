#include "connect/address_offer.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>
#include <utility>

#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint_info.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

std::vector<GidEntry> GidsFor(const Endpoint& endpoint) {
  if (endpoint.has_fixed_gid()) return {endpoint.address().gid};
  std::vector<GidEntry> gids = endpoint.device().Gids(endpoint.address().port);
  gids.resize(std::min(gids.size(), AddressOffer::kMaxGids));
  return gids;
}

std::optional<std::vector<GidEntry>> GetTable(ByteReader& bytes) {
  const uint64_t count = bytes.Get(2);
  if (count > AddressOffer::kMaxGids) return std::nullopt;
  std::vector<GidEntry> table(count);
  for (GidEntry& entry : table) {
    const uint64_t type = bytes.Get(1);
    const std::span<const uint8_t> raw = bytes.GetBytes(entry.gid.raw.size());
    if (!bytes.ok() || type > static_cast<uint64_t>(GidType::kRoceV2)) return std::nullopt;
    entry.type = static_cast<GidType>(type);
    std::ranges::copy(raw, entry.gid.raw.begin());
  }
  return table;
}

}  // namespace

AddressOffer::AddressOffer(std::span<Endpoint* const> endpoints) {
  std::map<std::tuple<const Device*, uint8_t, int64_t>, uint16_t>
      tables;  // table by device, port and fixed GID
  std::map<std::tuple<const Device*, uint8_t, uint16_t>, uint16_t> keys;  // key by device, port and index
  for (const Endpoint* const endpoint : endpoints) {
    const Device& device = endpoint->device();
    const LocalAddress& address = endpoint->address();
    const int64_t fixed = endpoint->has_fixed_gid() ? int64_t{address.gid.index} : -1;
    const auto [table, is_new] =
        tables.try_emplace({&device, address.port.number, fixed}, static_cast<uint16_t>(tables_.size()));
    if (is_new) tables_.push_back(GidsFor(*endpoint));
    const uint16_t index = endpoint->pkey_index();
    const auto [key, is_first] = keys.try_emplace({&device, address.port.number, index});
    if (is_first) key->second = device.PartitionKey(address.port, index);
    endpoints_.push_back({table->second, key->second});
  }
}

void AddressOffer::Put(ByteWriter& message) const {
  ByteWriter bytes;
  bytes.Put(2, tables_.size());
  for (const std::vector<GidEntry>& table : tables_) {
    bytes.Put(2, table.size());
    for (const GidEntry& entry : table) {
      bytes.Put(1, static_cast<uint64_t>(entry.type));
      bytes.Put(entry.gid.raw);
    }
  }
  for (const One& one : endpoints_) {
    bytes.Put(2, one.table);
    bytes.Put(2, one.partition_key);
  }
  message.Put(4, bytes.bytes().size());
  message.Put(bytes.bytes());
  message.Put(4, Crc32(bytes.bytes()));
}

std::optional<AddressOffer> AddressOffer::Get(ByteReader& message, size_t endpoints) {
  const std::span<const uint8_t> whole = message.GetBytes(message.Get(4));
  const uint64_t checksum = message.Get(4);
  if (!message.ok() || checksum != Crc32(whole)) return std::nullopt;
  ByteReader bytes(whole);
  AddressOffer read;
  const uint64_t tables = bytes.Get(2);
  if (tables > endpoints) return std::nullopt;
  for (uint64_t i = 0; i < tables; ++i) {
    std::optional<std::vector<GidEntry>> table = GetTable(bytes);
    if (!table) return std::nullopt;
    read.tables_.push_back(std::move(*table));
  }
  for (size_t i = 0; i < endpoints && bytes.ok(); ++i) {
    const One one{static_cast<uint16_t>(bytes.Get(2)), static_cast<uint16_t>(bytes.Get(2))};
    if (one.table >= tables) return std::nullopt;
    read.endpoints_.push_back(one);
  }
  if (!bytes.ok() || !bytes.rest().empty()) return std::nullopt;
  return read;
}

std::vector<std::optional<GidPair>> AddressOffer::PairsWith(const AddressOffer& peers) const {
  std::map<std::pair<uint16_t, uint16_t>, std::optional<GidPair>> best;
  std::vector<std::optional<GidPair>> pairs;
  for (size_t i = 0; i < endpoints_.size(); ++i) {
    const auto [pair, is_new] = best.try_emplace({endpoints_[i].table, peers.endpoints_[i].table});
    if (is_new) pair->second = BestPair(GidsOf(i), peers.GidsOf(i));
    pairs.push_back(pair->second);
  }
  return pairs;
}

std::string PartitionConflict(uint16_t here, uint16_t there) {
  constexpr int kFullMember = 0x8000, kPartition = 0x7fff;
  const auto because = [&](const char* reason) {
    char text[80];
    std::snprintf(text, sizeof text, "0x%04x here and 0x%04x there %s", here, there, reason);
    return std::string(text);
  };
  if ((here & kPartition) == 0 || (there & kPartition) == 0) return because("are not both valid");
  if (((here ^ there) & kPartition) != 0) return because("are in different partitions");
  if (((here | there) & kFullMember) == 0) return because("both have limited membership");
  return "";
}

}  // namespace warpverbs::inline v0_2::host
