#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/require.hpp"
#include "gpuio/ring/consumer.hpp"
#include "gpuio/ring/producer.hpp"
#include "ring/owned_ring.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

using softhca::Require;

/// Takes values off the fuzzer's input; zeros behind its end.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  bool empty() const { return size_ == 0; }
  template <class T>
  T Take() {
    T value{};
    const size_t taken = std::min(sizeof value, size_);
    std::memcpy(&value, data_, taken);
    data_ += taken;
    size_ -= taken;
    return value;
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

/// The daemon's side of a ring against an application that writes anything anywhere in it.
void AttackConsumer(Input input) {
  const int entries = 1 + input.Take<uint8_t>() % 16;
  const RingConfig config{.for_read = true,
                          .io_depth = input.Take<int8_t>() % (entries + 2),
                          .timeout_ms = input.Take<uint8_t>()};
  const OwnedRing owned(entries);
  std::map<int, bool> under_way;
  RingConsumer consumer(owned.memory(), config);
  RingConsumer::Clock::time_point now{};
  while (!input.empty()) {
    switch (input.Take<uint8_t>() % 4) {
      case 0: {  // a word of the application
        const size_t words = RingBytes(entries) / 4;
        const size_t place = input.Take<uint16_t>() % words;
        const int32_t value = (input.Take<uint8_t>() & 1) != 0 ? input.Take<int8_t>() : input.Take<int32_t>();
        std::memcpy(owned.bytes() + 4 * place, &value, sizeof value);
        break;
      }
      case 1: {
        now += std::chrono::milliseconds(input.Take<uint8_t>());
        const bool was_broken = !consumer.fault().empty();
        const std::vector<TakenIo> taken = consumer.Take(now);
        Require(taken.empty() || !was_broken, "nothing is taken from a broken ring");
        if (config.io_depth > 0 && consumer.fault().empty()) {
          Require(taken.empty() || taken.size() == static_cast<size_t>(config.io_depth), "batches are exact");
        }
        if (config.io_depth < 0)
          Require(taken.size() <= static_cast<size_t>(-config.io_depth), "batches have a limit");
        for (const TakenIo& io : taken) {
          Require(owned.memory().IsSlot(io.slot), "slots are in range");
          Require(!std::exchange(under_way[io.slot], true), "a slot is under way once");
        }
        break;
      }
      case 2: {
        const int slot = input.Take<uint8_t>() % (entries + 1);
        if (!std::exchange(under_way[slot], false)) break;
        consumer.Complete(slot, input.Take<int64_t>());
        break;
      }
      default: {  // what an application does that means well
        const int head = owned.memory().sqe_head().load();
        if (!owned.memory().IsSlot(head)) break;
        owned.memory().StoreSqe(head, {.index = input.Take<uint8_t>() % (entries + 1)});
        owned.memory().sqe_head() = owned.memory().Next(head);
      }
    }
    int count = 0;
    for (const auto& [slot, is_under_way] : under_way) count += is_under_way ? 1 : 0;
    Require(count == consumer.in_flight() && count <= entries,
            "no more is under way than the ring has entries");
  }
}

/// The application's side against a daemon that does.
void AttackProducer(Input input) {
  const int entries = 1 + input.Take<uint8_t>() % 16;
  const OwnedRing owned(entries);
  RingProducer producer(owned.memory());
  std::map<int, uint64_t> prepared;
  uint64_t next = 1;
  while (!input.empty()) {
    switch (input.Take<uint8_t>() % 4) {
      case 0: {
        const size_t place = input.Take<uint16_t>() % (RingBytes(entries) / 4);
        const int32_t value = (input.Take<uint8_t>() & 1) != 0 ? input.Take<int8_t>() : input.Take<int32_t>();
        std::memcpy(owned.bytes() + 4 * place, &value, sizeof value);
        break;
      }
      case 1: {
        const int slot = producer.Prepare({.bytes = 1, .userdata = next});
        if (slot < 0) break;
        Require(prepared.emplace(slot, next++).second, "a slot is prepared once");
        break;
      }
      case 2: {
        std::vector<hf3fs_cqe> cqes(input.Take<uint8_t>() % 32);
        cqes.resize(producer.Take(cqes));
        for (const hf3fs_cqe& cqe : cqes) {
          const auto found = prepared.find(cqe.index);
          Require(found != prepared.end(), "what completes was prepared");
          Require(reinterpret_cast<uint64_t>(cqe.userdata) == found->second, "userdata is the application's");
          prepared.erase(found);
        }
        break;
      }
      default:
        producer.Fail(5, (input.Take<uint8_t>() & 1) != 0);
    }
  }
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio

/// Uses the input as what one side of a ring does to the other.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using warpverbs::gpuio::Input;
  warpverbs::gpuio::AttackConsumer(Input(data, size));
  warpverbs::gpuio::AttackProducer(Input(data, size));
  return 0;
}
