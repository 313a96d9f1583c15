#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/device_selection.hpp"

/// Command lines of the programs: their values, the options that they share, and how they are refused.
namespace warpverbs::programs {

/// Parses a non-negative integer with an optional suffix k, M or G, in upper or lower case.
///
/// @param scale  factor of k: 1024 for sizes in bytes, 1000 for counts; M and G are its square and cube
/// @return       empty if the text is anything else, or too large for the type
inline std::optional<uint64_t> ParseScaled(std::string_view text, uint64_t scale) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  const std::string_view suffix = text.substr(static_cast<size_t>(end - text.data()));
  const size_t found = std::string_view("kKmMgG").find(suffix.empty() ? ' ' : suffix.front());
  if (suffix.size() > 1 || (suffix.size() == 1 && found == std::string_view::npos)) return std::nullopt;
  for (size_t i = 0; !suffix.empty() && i <= found / 2; ++i) {
    if (value > std::numeric_limits<uint64_t>::max() / scale) return std::nullopt;
    value *= scale;
  }
  return value;
}

/// Returns a check that refuses a value and says what is expected.
///
/// @param accept  takes the text and returns whether it is valid; may replace the text by another spelling
template <class Accept>
CLI::Validator Expect(const std::string& expected, const Accept& accept) {
  return {[expected, accept](std::string& text) {
            const std::string given = text;
            return accept(text) ? "" : "'" + given + "' is invalid: expected " + expected;
          },
          ""};
}

inline CLI::Validator ExpectScaled(const std::string& expected, uint64_t min, uint64_t max, uint64_t scale) {
  return Expect(expected, [=](std::string& text) {
    const auto value = ParseScaled(text, scale);
    if (value) text = std::to_string(*value);
    return value && *value >= min && *value <= max;
  });
}

inline std::string RangeText(int64_t min, int64_t max) {
  return std::to_string(min) + " to " + std::to_string(max);
}

/// Accepts a size in bytes: k, M and G are 2^10, 2^20 and 2^30. Add it by transform(): it expands the suffix.
inline CLI::Validator Bytes(uint32_t min, uint32_t max) {
  return ExpectScaled(RangeText(min, max) + " bytes; k, M and G mean 2^10, 2^20 and 2^30", min, max, 1024);
}

/// Accepts a count: k, M and G are 10^3, 10^6 and 10^9. Add it by transform().
inline CLI::Validator Count(uint32_t min, uint32_t max) {
  return ExpectScaled(RangeText(min, max) + "; k, M and G mean 10^3, 10^6 and 10^9", min, max, 1000);
}

/// Accepts a plain integer.
inline CLI::Validator Integer(int64_t min, int64_t max) {
  return Expect("an integer from " + RangeText(min, max), [=](const std::string& text) {
    int64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, value);
    return parsed.ec == std::errc() && parsed.ptr == end && value >= min && value <= max;
  });
}

/// Accepts a finite number.
///
/// @param expected  the range in words, for example "a number from 0.1 to 86400"
inline CLI::Validator Number(const std::string& expected, double min,
                             double max = std::numeric_limits<double>::max()) {
  return Expect(expected, [=](const std::string& text) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    return !text.empty() && *end == '\0' && value >= min && value <= max;  // NaN compares false
  });
}

/// Accepts one of several words.
inline CLI::Validator OneOf(const std::vector<std::string>& words) {
  std::string expected;
  for (size_t i = 0; i < words.size(); ++i)
    expected += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  return Expect(expected, [=](const std::string& text) {
    return std::find(words.begin(), words.end(), text) != words.end();
  });
}

inline constexpr char kNcclHelp[] =
    "Options that select the device default to the variables of NCCL: NCCL_IB_HCA, NCCL_IB_GID_INDEX,\n"
    "NCCL_IB_TC and NCCL_IB_SL.";

/// Adds the options that select a path; each program adds its own option for the NIC.
inline void AddDeviceOptions(CLI::App& app, DeviceOptions& options) {
  app.add_option("--gid-index", options.gid_index, "GID to send from (NCCL_IB_GID_INDEX, or the best)")
      ->type_name("INDEX")
      ->check(Integer(-1, 65535));
  app.add_option("--traffic-class", options.traffic_class, "Traffic class (NCCL_IB_TC, or 0)")
      ->type_name("0-255")
      ->check(Integer(0, 255));
  app.add_option("--service-level", options.service_level, "Service level (NCCL_IB_SL, or 0)")
      ->type_name("0-15")
      ->check(Integer(0, 15));
}

/// Text to print instead of running, and the exit status.
struct EarlyExit {
  std::string text{};
  int status = 0;
};

/// Returns one line that says why a command line, or a variable that stands in for it, is refused.
///
/// @param app  has parsed the command line
inline std::string Refusal(const CLI::App& app, const std::exception& error) {
  std::string reason = error.what();
  if (dynamic_cast<const CLI::Error*>(&error) == nullptr) return app.get_name() + ": " + reason + "\n";
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::string first = app.remaining().front();
    reason = (first.front() == '-' ? "unknown option " : "unexpected argument ") + first;
  } else if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const std::string name = reason.substr(0, reason.find(':'));
    const CLI::Option* const option = app.get_option_no_throw(name);
    const bool repeated = option != nullptr && option->results().size() > 1;
    reason = name + (repeated ? " is given more than once" : " needs a value");
  }
  return app.get_name() + ": " + reason + ". See " + app.get_name() + " --help.\n";
}

/// Parses a command line.
///
/// @param complete  called once all options are read; throws std::exception if they do not fit together
/// @return          empty if the program is to run
template <class Complete>
std::optional<EarlyExit> ParseCommandLine(CLI::App& app, int argc, const char* const* argv,
                                          const Complete& complete) {
  try {
    app.parse(argc, argv);
    complete();
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    return EarlyExit{app.help(), 0};
  } catch (const CLI::CallForVersion& version) {
    return EarlyExit{std::string(version.what()) + '\n', 0};
  } catch (const std::exception& error) {
    return EarlyExit{Refusal(app, error), 2};
  }
}

}  // namespace warpverbs::programs
