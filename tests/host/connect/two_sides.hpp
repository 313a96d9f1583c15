#pragma once

#include <array>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "host/connect/exchange_fixture.hpp"
#include "warpverbs/host/connect_all.hpp"
#include "warpverbs/host/device.hpp"

/// Both sides of a ConnectAll() in one program.
namespace warpverbs::inline v0_2::host {

/// One of two exchange ends within this program.
class Wire {
 public:
  class End final : public Exchange {
   public:
    End(Wire& wire, size_t side) : wire_(wire), side_(side) {}

    std::vector<uint8_t> Swap(std::span<const uint8_t> mine, std::string_view what,
                              Deadline deadline) override {
      std::vector<uint8_t> message(mine.begin(), mine.end());
      std::unique_lock lock(wire_.mutex_);
      auto &own = wire_.boxes_[side_], &others = wire_.boxes_[1 - side_];
      const auto await = [&](const auto& condition) {
        wire_.changed_.wait_until(lock, deadline, [&] { return condition() || wire_.cut_; });
        if (!condition()) throw Error("swap", std::string(what), "the other end is gone", "Look there");
      };
      await([&] { return !others; });  // the peer has taken the previous message
      others = std::move(message);
      wire_.changed_.notify_all();
      await([&] { return own.has_value(); });
      wire_.changed_.notify_all();
      return *std::exchange(own, std::nullopt);
    }

   private:
    Wire& wire_;
    size_t side_;
  };

  void Cut() {
    const std::lock_guard lock(mutex_);
    cut_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<std::optional<std::vector<uint8_t>>, 2> boxes_;
  bool cut_ = false;
};

/// Endpoints of two sides for ConnectAll(). Faults hit the first side.
struct TwoSides {
  explicit TwoSides(const Device& device)
      : a(device, kConfig), b(device, kConfig), c(device, kConfig), d(device, kConfig) {}

  void Connect() {
    Wire wire;
    const auto run = [&](std::array<Endpoint*, 2> endpoints, size_t side) {
      Wire::End end(wire, side);
      try {
        ConnectAll(endpoints, end, Soon(), {.round_trip = true});
      } catch (...) {
        wire.Cut();
        throw;
      }
    };
    std::jthread other([&] { SentenceOf([&] { run({&c, &d}, 1); }); });
    try {
      run({&a, &b}, 0);
    } catch (...) {
      wire.Cut();
      other.join();
      throw;
    }
  }
  bool AllAre(mlx5::QpState state) const {
    return a.State() == state && b.State() == state && c.State() == state && d.State() == state;
  }
  void Reset() {
    for (Endpoint* const endpoint : {&a, &b, &c, &d}) endpoint->Reset();
  }

  // A write to a side that has failed must fail soon.
  static constexpr EndpointConfig kConfig{.retry = {.ack_timeout = 8, .retry_count = 1}};
  Endpoint a, b, c, d;
};

}  // namespace warpverbs::inline v0_2::host
