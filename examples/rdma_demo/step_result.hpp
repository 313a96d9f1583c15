// What came of each operation, as both sides agree on it and as the summary tells it.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace rdma_demo {

enum class Result : uint8_t {
  kOk,
  kUnsupported,  ///< the peer's NIC refused, which is an answer and no fault
  kFailed,
};

struct Outcome {
  Result result = Result::kOk;
  std::string text{};

  /// As one line, and back. @errors  std::runtime_error: it is none
  std::string ToText() const;
  static Outcome FromText(const std::string& line);
};

/// What both sides together have made of something: the worse of the two, and whose words it is.
///
/// @param peer  "the client"
Outcome Agree(const Outcome& own, const Outcome& theirs, const std::string& peer);

/// What is printed at the end.
struct Summary {
  std::string side{};                ///< "the server"
  std::vector<std::string> facts{};  ///< "memory            host memory ..."
  std::vector<std::string> planned{};
  std::vector<Outcome> outcomes{};  ///< of the first of those that were planned

  bool all_well() const;
  void Print(std::ostream& out) const;
};

/// A line of two columns.
std::string Fact(const std::string& name, const std::string& value);

}  // namespace rdma_demo
