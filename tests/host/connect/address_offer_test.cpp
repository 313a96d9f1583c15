#include "connect/address_offer.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "warpverbs/host/endpoint_info.hpp"

namespace warpverbs::host {
namespace {

constexpr size_t kGidBytes = 16;

/// Fields of a message in the format of AddressOffer::Put(), valid or not.
struct Message {
  std::vector<uint64_t> gids_of_tables{2};  // number of GIDs per table
  std::vector<uint64_t> tables_of_endpoints{0};
  uint64_t type = 2;
  uint64_t tables = 1;  // announced number
  size_t missing = 0;   // bytes missing at the end

  std::vector<uint8_t> Bytes() const {
    ByteWriter body;
    body.Put(2, tables);
    for (const uint64_t count : gids_of_tables) {
      body.Put(2, count);
      for (uint64_t i = 0; i < count; ++i) {
        body.Put(1, type);
        body.Put(kGidBytes / 2, 0x20010db8);
        body.Put(kGidBytes / 2, i + 1);
      }
    }
    for (const uint64_t table : tables_of_endpoints) {
      body.Put(2, table);
      body.Put(2, 0xffff);
    }
    std::vector<uint8_t> bytes = body.bytes();
    bytes.resize(bytes.size() - missing);
    ByteWriter message;
    message.Put(4, bytes.size());
    message.Put(bytes);
    message.Put(4, Crc32(bytes));
    return message.bytes();
  }
};

std::optional<AddressOffer> Read(const std::vector<uint8_t>& bytes, size_t endpoints = 1) {
  ByteReader reader(bytes);
  return AddressOffer::Get(reader, endpoints);
}

TEST(AddressOffer, ReadsWhatItWrote) {
  const auto read = Read(Message{{2, 256}, {1, 0, 1}, 2, 2}.Bytes(), 3);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->GidsOf(0).size(), 256u);
  EXPECT_EQ(read->GidsOf(1).size(), 2u);
  EXPECT_EQ(read->GidsOf(2)[9].gid.raw[15], 10);
  EXPECT_EQ(read->GidsOf(2)[9].type, GidType::kRoceV2);
  EXPECT_EQ(read->PartitionKeyOf(2), 0xffff);
  ByteWriter again;
  read->Put(again);
  EXPECT_EQ(again.bytes(), (Message{{2, 256}, {1, 0, 1}, 2, 2}.Bytes()));
  EXPECT_TRUE(Read(Message{{0}, {0}}.Bytes())) << "a port may have lost its addresses";
  EXPECT_TRUE(Read(Message{{}, {}, 2, 0}.Bytes(), 0));
}

TEST(AddressOffer, RejectsMalformedBytes) {
  ASSERT_TRUE(Read(Message{}.Bytes()));
  EXPECT_FALSE(Read(Message{{257}}.Bytes())) << "more than a queue pair can name";
  EXPECT_FALSE(Read(Message{{2, 2}, {0}, 2, 2}.Bytes())) << "more tables than endpoints";
  EXPECT_FALSE(Read(Message{{2}, {1}}.Bytes())) << "a table that does not exist";
  EXPECT_FALSE(Read(Message{{2}, {0}, 3}.Bytes())) << "another type";
  EXPECT_FALSE(Read(Message{{2}, {0}, 2, 1, 1}.Bytes())) << "too short";
  EXPECT_FALSE(Read(Message{{2}, {0, 0}}.Bytes())) << "too long";
  EXPECT_FALSE(Read(Message{}.Bytes(), 2)) << "for fewer endpoints";
  EXPECT_FALSE(Read({}));
}

TEST(AddressOffer, RejectsBytesWithAnyBitFlipped) {
  const std::vector<uint8_t> whole = Message{}.Bytes();
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::vector<uint8_t> damaged = whole;
    damaged[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    EXPECT_FALSE(Read(damaged)) << bit;
  }
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(Read({whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length)})) << length;
}

TEST(AddressOffer, SurvivesRandomBytes) {
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    std::vector<uint8_t> body(random() % 60);
    for (uint8_t& byte : body) byte = static_cast<uint8_t>(random() % 4);
    ByteWriter message;
    message.Put(4, body.size());
    message.Put(body);
    message.Put(4, Crc32(body));
    static_cast<void>(Read(message.bytes(), random() % 4));
  }
}

TEST(PartitionConflict, RejectsDifferentPartitionsAndTwoLimitedMembers) {
  for (const auto& [here, there, why] : std::initializer_list<std::tuple<uint16_t, uint16_t, const char*>>{
           {0xffff, 0xffff, ""},
           {0xffff, 0x7fff, ""},
           {0x8001, 0x0001, ""},
           {0x8001, 0x8001, ""},
           {0x7fff, 0x7fff, "0x7fff here and 0x7fff there both have limited membership"},
           {0x8001, 0xffff, "0x8001 here and 0xffff there are in different partitions"},
           {0x0001, 0x8002, "0x0001 here and 0x8002 there are in different partitions"},
           {0x0000, 0xffff, "0x0000 here and 0xffff there are not both valid"},
           {0x8000, 0x8000, "0x8000 here and 0x8000 there are not both valid"}}) {
    EXPECT_EQ(PartitionConflict(here, there), why);
    EXPECT_EQ(PartitionConflict(there, here).empty(), std::string(why).empty());
  }
}

}  // namespace
}  // namespace warpverbs::host
