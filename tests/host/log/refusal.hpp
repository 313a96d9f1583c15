#pragma once

#include <string>

#include "warpverbs/host/error.hpp"

namespace warpverbs::host {

/// What WhyRefused() answers where there was no reason to.
inline constexpr char kTaken[] = "it was taken";

/// The sentence that a call fails with; empty if it does not.
template <class Call>
std::string SentenceOf(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// As SentenceOf(), for calls that shall fail: a test that shows the answer shows that it was none.
template <class Call>
std::string WhyRefused(const Call& call) {
  const std::string sentence = SentenceOf(call);
  return sentence.empty() ? kTaken : sentence;
}

}  // namespace warpverbs::host
