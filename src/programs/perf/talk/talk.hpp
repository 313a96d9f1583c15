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

/// The other side has failed, and said why.
class PeerFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A field of a peer's answer.
///
/// @errors  std::runtime_error: it is not there, of another type, or a number that this type does not hold
template <class T>
T Get(const Json& answer, const char* field) {
  constexpr char kStranger[] =
      ": it is no warpverbs-perf of this version. Run the same version on both sides.";
  try {
    const Json& told = answer.at(field);
    if (!std::integral<T> || !told.is_number_float()) {
      T value = told.get<T>();
      if (Json(value).dump() == told.dump()) return value;  // what does not fit comes out as another number
    }
    throw std::runtime_error(std::string("The other side's '") + field + "' is " + told.dump().substr(0, 40) +
                             ", which cannot be" + kStranger);
  } catch (const Json::exception&) {
    throw std::runtime_error(std::string("The other side tells no '") + field + "'" + kStranger);
  }
}

/// As text, whatever a string has: what is no UTF-8, as where one was cut, becomes U+FFFD.
///
/// @param indent  of each level; -1: all on one line
inline std::string Dumped(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

/// What the two sides tell each other, in turn.
class Talk {
 public:
  /// @param patience  for each answer
  /// @param beat      how often a side that is at work says so; both sides have the same
  Talk(host::Exchange& exchange, std::chrono::nanoseconds patience,
       std::chrono::nanoseconds beat = std::chrono::seconds(1))
      : exchange_(exchange), patience_(patience), beat_(beat) {}

  host::Exchange& exchange() const { return exchange_; }
  host::Deadline Until() const { return host::DeadlineIn(patience_); }

  /// @param what  for the error: "its options"
  /// @errors  Error, as Exchange; PeerFailed; std::runtime_error: not what warpverbs-perf says
  Json Swap(const Json& mine, const char* what) { return SwapWithin(patience_, mine, what); }

  /// Does this side's part, and returns when both sides have done theirs. Meanwhile each says every beat that
  /// it is there: so a part may last for hours. A peer that fails, leaves or falls silent ends it: its
  /// failure is told rather than what came of it here.
  ///
  /// @param part  has deadlines of its own
  /// @param stop  ends the part soon, without an exception; called once at most, by another thread; throws
  ///              nothing
  /// @errors      what the part throws; Error: nothing came for the patience and a beat, or the system has no
  ///              thread left; as Swap()
  void DoTogether(const std::function<void()>& part, const std::function<void()>& stop);

  /// Tells why this side goes no further, where the other one would wait; what fails now is of no interest.
  void Fail(const std::string& why) noexcept;

 private:
  Json SwapWithin(std::chrono::nanoseconds patience, const Json& mine, const char* what);
  /// Tells whether this side has done its part. @return whether the other one has
  bool SwapDone(bool done);

  host::Exchange& exchange_;
  std::chrono::nanoseconds patience_, beat_;
};

}  // namespace warpverbs::perf
