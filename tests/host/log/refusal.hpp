#pragma once

#include <string>

#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {

/// Result of WhyRefused() if the call succeeded.
inline constexpr char kAccepted[] = "it was accepted";

/// Returns the error text of a call, or "" if it succeeds.
template <class Call>
std::string SentenceOf(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Like SentenceOf(), for calls that must fail: a failed expectation then shows that the call succeeded.
template <class Call>
std::string WhyRefused(const Call& call) {
  const std::string sentence = SentenceOf(call);
  return sentence.empty() ? kAccepted : sentence;
}

}  // namespace warpverbs::inline v0_2::host
