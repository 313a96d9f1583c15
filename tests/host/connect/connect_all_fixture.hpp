#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "host/connect/exchange_fixture.hpp"
#include "warpverbs/host/connect_all.hpp"
#include "warpverbs/host/device.hpp"

/// Two sides that call ConnectAll(), and the exchange between them.
namespace warpverbs::inline v0_2::host {

/// An exchange that changes another exchange's messages, or fails.
class Tampering final : public Exchange {
 public:
  using Change = std::function<void(int swap, std::vector<uint8_t>& answer)>;

  Tampering(Exchange& exchange, Change change) : exchange_(exchange), change_(std::move(change)) {}

  std::vector<uint8_t> Swap(std::span<const uint8_t> mine, std::string_view what,
                            Deadline deadline) override {
    std::vector<uint8_t> answer = exchange_.Swap(mine, what, deadline);
    change_(swaps_++, answer);
    return answer;
  }

 private:
  Exchange& exchange_;
  Change change_;
  int swaps_ = 0;
};

/// The endpoints of one side.
class Side {
 public:
  Side(const Device& device, size_t count, const EndpointConfig& config = {}) {
    for (size_t i = 0; i < count; ++i) Add(device, config);
  }

  Endpoint& Add(const Device& device, const EndpointConfig& config = {}) {
    owned_.push_back(std::make_unique<Endpoint>(device, config));
    list_.push_back(owned_.back().get());
    return *list_.back();
  }

  std::vector<Endpoint*>& list() { return list_; }
  void Reset() const {
    for (const auto& one : owned_) one->Reset();
  }
  bool AllAre(mlx5::QpState state) const {
    return std::all_of(owned_.begin(), owned_.end(),
                       [state](const auto& one) { return one->State() == state; });
  }

 private:
  std::vector<std::unique_ptr<Endpoint>> owned_;
  std::vector<Endpoint*> list_;
};

/// The error texts of both sides.
struct Sentences {
  std::string here, there;
};

class ConnectAllTest : public testing::Test {
 protected:
  /// Runs both sides at once. A side that fails hangs up, as a program that ends does.
  static Sentences Connect(const std::function<void(Exchange&)>& here,
                           const std::function<void(Exchange&)>& there) {
    auto tcp = std::make_unique<TcpPair>();
    const auto run = [](const auto& side, TcpExchange& exchange) {
      return SentenceOf([&] {
        try {
          side(exchange);
        } catch (...) {
          const TcpExchange hung_up = std::move(exchange);
          throw;
        }
      });
    };
    auto other = std::async(std::launch::async, [&] { return run(there, tcp->there); });
    Sentences sentences;
    sentences.here = run(here, tcp->here);
    sentences.there = other.get();
    return sentences;
  }

  static auto Plainly(Side& side, const ConnectOptions& options = {}) {
    return [&side, options](Exchange& exchange) { ConnectAll(side.list(), exchange, Soon(), options); };
  }

  static auto Tampered(Side& side, const Tampering::Change& change, const ConnectOptions& options = {}) {
    return [&side, change, options](Exchange& exchange) {
      Tampering tampering(exchange, change);
      ConnectAll(side.list(), tampering, Soon(), options);
    };
  }

  /// Checks that a failure left no trace: the sides connect.
  static void ExpectConnects(Side& a, Side& b) {
    EXPECT_TRUE(a.AllAre(mlx5::QpState::kReset));
    EXPECT_TRUE(b.AllAre(mlx5::QpState::kReset));
    const Sentences sentences = Connect(Plainly(a, kTrip), Plainly(b, kTrip));
    EXPECT_EQ(sentences.here, "");
    EXPECT_EQ(sentences.there, "");
    EXPECT_TRUE(a.AllAre(mlx5::QpState::kRts));
    EXPECT_TRUE(b.AllAre(mlx5::QpState::kRts));
  }

  static constexpr ConnectOptions kTrip{.round_trip = true};
  Device device_;
};

}  // namespace warpverbs::inline v0_2::host
