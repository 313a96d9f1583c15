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

Url Example(size_t queue_pairs = 2) {
  Url url;
  for (size_t i = 0; i < url.transport.size(); ++i) url.transport[i] = static_cast<uint8_t>(17 * i);
  for (uint32_t i = 0; i < queue_pairs; ++i) {
    host::EndpointInfo endpoint{.qpn = 0x100 + i, .psn = 0xabcdef};
    endpoint.gid.raw = {0xfe, 0x80, 1};
    url.queue_pairs.push_back({static_cast<uint8_t>(i % AccessKey::kMaxNics), endpoint});
  }
  return url;
}

template <class T = Url>
std::string ErrorOf(const std::string& text) {
  try {
    T::FromText(text);
    return "accepted";
  } catch (const host::Error& error) {
    return error.what();
  }
}

TEST(Url, ParsesItsOwnText) {
  for (const size_t count : {size_t{1}, size_t{2}, Url::kMaxQueuePairs}) {
    EXPECT_EQ(Url::FromText(Example(count).ToText()), Example(count));
  }
}

TEST(Url, IsOnePrintableWord) {
  EXPECT_THAT(Example().ToText(), testing::MatchesRegex("warpverbs-url-1-[0-9a-f]+"));
}

TEST(Url, RefusesOtherKindsVersionsAndLengths) {
  const std::string good = Example().ToText();
  EXPECT_THAT(ErrorOf(""), HasSubstr("does not begin with 'warpverbs-url-'"));
  EXPECT_THAT(ErrorOf(AccessKey{.nics = 1}.ToText()), HasSubstr("does not begin with 'warpverbs-url-'"));
  std::string other = good;
  other.replace(good.find("-1-"), 3, "-2-");
  EXPECT_THAT(ErrorOf(other), HasSubstr("it is not of version 1. Use the same release"));
  EXPECT_THAT(ErrorOf(good.substr(0, good.size() - 1)), HasSubstr("not whole bytes"));
  EXPECT_THAT(ErrorOf(good.substr(0, good.size() - 2)), HasSubstr("checksum"));
  EXPECT_THAT(ErrorOf(good + "00"), HasSubstr("checksum"));
  EXPECT_THAT(ErrorOf(good + std::string(1 << 20, '0')), HasSubstr("not whole bytes"));
}

TEST(Url, RefusesZeroOrTooManyQueuePairs) {
  EXPECT_THAT(ErrorOf(Example(0).ToText()), HasSubstr("no queue pairs, or too many"));
  EXPECT_THAT(ErrorOf(Example(Url::kMaxQueuePairs + 1).ToText()), HasSubstr("no queue pairs, or too many"));
}

TEST(Url, RefusesANicWithoutAKey) {
  Url url = Example();
  url.queue_pairs[0].nic = AccessKey::kMaxNics;
  EXPECT_THAT(ErrorOf(url.ToText()), HasSubstr("beyond the last"));
}

/// Changed, removed and inserted bytes are refused, and the parser does not read past the end.
TEST(Url, RefusesTenThousandMutations) {
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
    ASSERT_NE(ErrorOf(bad), "accepted") << bad;
  }
}

/// Parses ten thousand texts. Returns the number of accepted ones, each of which round-trips, and the errors
/// of the others.
template <class T, class NextText>
std::pair<int, std::set<std::string>> ParseTenThousand(const NextText& next) {
  int accepted = 0;
  std::set<std::string> errors;
  for (int i = 0; i < 10'000; ++i) {
    const std::string text = next();
    if (const std::string error = ErrorOf<T>(text); error != "accepted") {
      errors.insert(error);
      continue;
    }
    ++accepted;
    const T read = T::FromText(text);
    EXPECT_EQ(T::FromText(read.ToText()), read) << text;
  }
  return {accepted, errors};
}

/// Contents with a right checksum are accepted, or refused with the reason.
TEST(Url, SurvivesTenThousandForgeries) {
  const std::string good = Example().ToText();
  std::mt19937 random(8);
  const auto [accepted, errors] = ParseTenThousand<Url>([&] { return Forge(good, random); });
  EXPECT_GT(accepted, 1000);
  EXPECT_THAT(errors, testing::Each(testing::MatchesRegex("Cannot read .*: .*\\. .*\\.")));
  for (const char* const reason :
       {"no queue pairs, or too many", "shorter than it says", "longer than it says", "a NIC beyond the last",
        "its checksum is wrong", "it has version", "does not begin like",
        "the queue pair number is out of range", "the packet sequence number is out of range",
        "the link layer is out of range", "the GID type is out of range", "the MTU is out of range"}) {
    EXPECT_THAT(errors, testing::Contains(HasSubstr(reason)));
  }
}

TEST(AccessKey, SurvivesTenThousandForgeries) {
  AccessKey key{.nics = 3};
  key.rkeys = {1, 0xffffffff, 0x12345678};
  const std::vector<uint8_t> good = kKeyFormat.Decode(key.ToText());
  std::mt19937 random(9);
  const auto [accepted, errors] = ParseTenThousand<AccessKey>([&] {
    std::vector<uint8_t> bad = good;
    Mutate(bad, random);
    return kKeyFormat.Encode(bad);
  });
  EXPECT_GT(accepted, 1000);
  EXPECT_THAT(errors, testing::ElementsAre(HasSubstr("its length does not fit its number of keys")));
}

TEST(AccessKey, ParsesItsOwnText) {
  AccessKey key{.nics = 3};
  key.rkeys = {1, 0xffffffff, 0x12345678};
  EXPECT_EQ(AccessKey::FromText(key.ToText()), key);
}

TEST(AccessKey, RefusesOtherLengths) {
  EXPECT_THROW(AccessKey::FromText(AccessKey{}.ToText()), host::Error);
  EXPECT_THROW(AccessKey::FromText(""), host::Error);
  EXPECT_THROW(AccessKey::FromText(Example().ToText()), host::Error);
}

}  // namespace
}  // namespace warpverbs::transport
