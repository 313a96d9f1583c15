#include "url.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>

#include "resealed.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/transport/memory.hpp"

namespace warpverbs::transport {
namespace {

using testing::HasSubstr;

Url Example(size_t lanes = 2) {
  Url url;
  for (size_t i = 0; i < url.transport.size(); ++i) url.transport[i] = static_cast<uint8_t>(17 * i);
  for (uint32_t i = 0; i < lanes; ++i) {
    host::EndpointInfo endpoint{.qpn = 0x100 + i, .psn = 0xabcdef};
    endpoint.gid.raw = {0xfe, 0x80, 1};
    url.lanes.push_back({static_cast<uint8_t>(i % AccessKey::kMaxNics), endpoint});
  }
  return url;
}

template <class T = Url>
std::string Refusal(const std::string& text) {
  try {
    T::FromText(text);
    return "taken";
  } catch (const host::Error& error) {
    return error.what();
  }
}

TEST(Url, IsReadAsItWasWritten) {
  for (const size_t lanes : {size_t{1}, size_t{2}, Url::kMaxLanes}) {
    EXPECT_EQ(Url::FromText(Example(lanes).ToText()), Example(lanes));
  }
}

TEST(Url, IsOnePrintableWord) {
  EXPECT_THAT(Example().ToText(), testing::MatchesRegex("warpverbs-url-1-[0-9a-f]+"));
}

TEST(Url, OfAnotherKindVersionOrLengthIsRefusedInASentence) {
  const std::string good = Example().ToText();
  EXPECT_THAT(Refusal(""), HasSubstr("does not begin with 'warpverbs-url-'"));
  EXPECT_THAT(Refusal(AccessKey{.nics = 1}.ToText()), HasSubstr("does not begin with 'warpverbs-url-'"));
  std::string other = good;
  other.replace(good.find("-1-"), 3, "-2-");
  EXPECT_THAT(Refusal(other), HasSubstr("it is not of version 1. Use the same release"));
  EXPECT_THAT(Refusal(good.substr(0, good.size() - 1)), HasSubstr("not whole bytes"));
  EXPECT_THAT(Refusal(good.substr(0, good.size() - 2)), HasSubstr("checksum"));
  EXPECT_THAT(Refusal(good + "00"), HasSubstr("checksum"));
  EXPECT_THAT(Refusal(good + std::string(1 << 20, '0')), HasSubstr("not whole bytes"));
}

TEST(Url, WithoutQueuePairsOrWithTooManyIsRefused) {
  EXPECT_THAT(Refusal(Example(0).ToText()), HasSubstr("no queue pairs, or too many"));
  EXPECT_THAT(Refusal(Example(Url::kMaxLanes + 1).ToText()), HasSubstr("no queue pairs, or too many"));
}

TEST(Url, WhoseNicHasNoKeyIsRefused) {
  Url url = Example();
  url.lanes[0].nic = AccessKey::kMaxNics;
  EXPECT_THAT(Refusal(url.ToText()), HasSubstr("beyond the last"));
}

/// Bytes changed, dropped, doubled, cut off, swapped: each is refused, and none read beyond its end.
TEST(Url, TenThousandMutationsAreAllRefused) {
  const std::string good = Example().ToText();
  std::mt19937 random(7);
  for (int i = 0; i < 10'000; ++i) {
    std::string bad = good;
    for (uint32_t changes = 1 + random() % 4; changes != 0; --changes) {
      const size_t at = random() % (bad.size() + 1);
      switch (random() % 5) {
        case 0:
          if (at < bad.size()) bad[at] = static_cast<char>(random());
          break;
        case 1:
          if (at < bad.size()) bad[at] = "0123456789abcdef"[random() % 16];
          break;
        case 2:
          bad.resize(at);
          break;
        case 3:
          bad.insert(at, 1 + random() % 5, static_cast<char>('0' + random() % 10));
          break;
        default:
          bad.erase(at, 1 + random() % 3);
      }
    }
    if (bad == good) continue;
    ASSERT_NE(Refusal(bad), "taken") << bad;
  }
}

/// How many of ten thousand mutants are taken, each whole, and why the others are not.
template <class T, class NextMutant>
std::pair<int, std::set<std::string>> OutcomesOfTenThousand(const NextMutant& next) {
  int taken = 0;
  std::set<std::string> refusals;
  for (int i = 0; i < 10'000; ++i) {
    const std::string text = next();
    if (const std::string refusal = Refusal<T>(text); refusal != "taken") {
      refusals.insert(refusal);
      continue;
    }
    ++taken;
    const T read = T::FromText(text);
    EXPECT_EQ(T::FromText(read.ToText()), read) << text;
  }
  return {taken, refusals};
}

/// What no checksum shows: each is taken, or refused for what is wrong with it.
TEST(Url, TenThousandMutationsBehindTheChecksumsAreTakenOrRefusedInASentence) {
  const std::string good = Example().ToText();
  std::mt19937 random(8);
  const auto [taken, refusals] = OutcomesOfTenThousand<Url>([&] { return Mutant(good, random); });
  EXPECT_GT(taken, 1000);
  EXPECT_THAT(refusals, testing::Each(testing::MatchesRegex("Cannot read .*: .*\\. .*\\.")));
  for (const char* const reason :
       {"no queue pairs, or too many", "shorter than it says", "longer than it says", "a NIC beyond the last",
        "its checksum is wrong", "it has version", "does not begin like",
        "the queue pair number is out of range", "the packet sequence number is out of range",
        "the link layer is out of range", "the GID type is out of range", "the MTU is out of range"}) {
    EXPECT_THAT(refusals, testing::Contains(HasSubstr(reason)));
  }
}

TEST(AccessKey, TenThousandMutationsBehindTheChecksumAreTakenOrRefusedInASentence) {
  AccessKey key{.nics = 3};
  key.rkeys = {1, 0xffffffff, 0x12345678};
  const std::vector<uint8_t> good = kKeyFormat.Read(key.ToText());
  std::mt19937 random(9);
  const auto [taken, refusals] = OutcomesOfTenThousand<AccessKey>([&] {
    std::vector<uint8_t> bad = good;
    Mutate(bad, random);
    return kKeyFormat.Write(bad);
  });
  EXPECT_GT(taken, 1000);
  EXPECT_THAT(refusals, testing::ElementsAre(HasSubstr("its length does not fit its number of keys")));
}

TEST(AccessKey, IsReadAsItWasWritten) {
  AccessKey key{.nics = 3};
  key.rkeys = {1, 0xffffffff, 0x12345678};
  EXPECT_EQ(AccessKey::FromText(key.ToText()), key);
}

TEST(AccessKey, OfAnotherLengthThanItSaysIsRefused) {
  EXPECT_THROW(AccessKey::FromText(AccessKey{}.ToText()), host::Error);
  EXPECT_THROW(AccessKey::FromText(""), host::Error);
  EXPECT_THROW(AccessKey::FromText(Example().ToText()), host::Error);
}

}  // namespace
}  // namespace warpverbs::transport
