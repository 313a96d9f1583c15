// The result of each step, on which both sides agree, and the summary.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace rdma_demo {

enum class StepCode : uint8_t {
  kOk,
  kUnsupported,  ///< the peer's NIC refused the operation, which is not a failure
  kFailed,
};

struct StepResult {
  StepCode code = StepCode::kOk;
  std::string text{};

  /// Serializes the result as one line, and parses it.
  ///
  /// @errors  std::runtime_error: the line is not a result
  std::string ToText() const;
  static StepResult FromText(const std::string& line);
};

/// Returns the worse of both sides' results. Its text names the peer if the result is the peer's.
///
/// @param peer  name of the peer: "the client"
StepResult Combine(const StepResult& own, const StepResult& theirs, const std::string& peer);

/// The summary at the end of a program.
struct Summary {
  std::string side{};                 ///< name of this side: "the server"
  std::vector<std::string> rows{};    ///< rows before the results: "memory            host memory ..."
  std::vector<std::string> steps{};   ///< names of all steps
  std::vector<StepResult> results{};  ///< results of the steps done so far

  bool succeeded() const;
  void Print(std::ostream& out) const;
};

/// Returns a line of two columns.
std::string TableRow(const std::string& name, const std::string& value);

}  // namespace rdma_demo
