#pragma once

#include <chrono>
#include <concepts>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "warpverbs/host/exchange.hpp"

namespace warpverbs::perf {

using Json = nlohmann::ordered_json;

/// The peer failed. what() has the peer's reason.
class PeerFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Returns a field of a peer's message.
///
/// @errors  std::runtime_error: the field is missing, has another type, or does not fit into T
template <class T>
T Get(const Json& message, const char* field) {
  constexpr char kRemedy[] = ". Run the same version of warpverbs-perf on both sides.";
  try {
    const Json& found = message.at(field);
    if (!std::integral<T> || !found.is_number_float()) {
      T value = found.get<T>();
      if (Json(value).dump() == found.dump()) return value;  // a number that does not fit was narrowed
    }
    throw std::runtime_error(std::string("The peer sent an invalid '") + field +
                             "': " + found.dump().substr(0, 40) + kRemedy);
  } catch (const Json::exception&) {
    throw std::runtime_error(std::string("The peer sent no valid '") + field + "'" + kRemedy);
  }
}

/// Serializes any JSON value. Bytes that are not UTF-8, such as a letter that was cut, become U+FFFD.
///
/// @param indent  spaces per level; -1: everything on one line
inline std::string Serialize(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

/// The control connection of the two sides. They exchange messages in lockstep.
class ControlChannel {
 public:
  /// @param timeout    time to wait for each message
  /// @param heartbeat  interval between messages of a side that is busy; equal on both sides
  ControlChannel(host::Exchange& exchange, std::chrono::nanoseconds timeout,
                 std::chrono::nanoseconds heartbeat = std::chrono::seconds(1))
      : exchange_(exchange), timeout_(timeout), heartbeat_(heartbeat) {}

  host::Exchange& exchange() const { return exchange_; }
  host::Deadline Deadline() const { return host::DeadlineIn(timeout_); }

  /// Sends a message and returns the peer's.
  ///
  /// @param what  noun phrase for errors: "its options"
  /// @errors  Error, as Exchange; PeerFailed; std::runtime_error: the peer is not warpverbs-perf
  Json Swap(const Json& mine, const char* what) { return SwapWithin(timeout_, mine, what); }

  /// Runs this side's part, and returns when both sides have finished theirs.
  ///
  /// Meanwhile each side sends a heartbeat, so a part may last for hours. A peer that fails, leaves or falls
  /// silent ends the part, and its failure is thrown rather than the consequences on this side.
  ///
  /// @param part  bounds its own waits
  /// @param stop  makes the part return soon and without an exception; called at most once, from another
  ///              thread; does not throw
  /// @errors  what `part` throws; Error: no message arrived within the timeout plus a heartbeat, or no thread
  ///          can be started; as Swap()
  void RunTogether(const std::function<void()>& part, const std::function<void()>& stop);

  /// Tells the peer, which would wait otherwise, why this side stops. Ignores errors of its own.
  void Fail(const std::string& reason) noexcept;

 private:
  Json SwapWithin(std::chrono::nanoseconds timeout, const Json& mine, const char* what);
  /// Tells the peer whether this side has finished its part. @return whether the peer has
  bool SwapDone(bool done);

  host::Exchange& exchange_;
  std::chrono::nanoseconds timeout_, heartbeat_;
};

}  // namespace warpverbs::perf
