#include "common/nccl_environment.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <system_error>

#include "warpverbs/host/error.hpp"

namespace warpverbs::programs {
namespace {

host::Error BadValue(const std::string& variable, const std::string& value, const std::string& reason,
                     const std::string& allowed) {
  return {"use", variable + "=" + value, reason, "Set it to " + allowed + ", or unset it"};
}

host::Error BadFilter(const std::string& text, const std::string& reason) {
  return BadValue("NCCL_IB_HCA", text, reason,
                  "a list such as mlx5_0,mlx5_1:1, with a leading = to match whole names or ^ to exclude the "
                  "list");
}

/// Parses a decimal number, or a hexadecimal one after "0x", as NCCL does.
std::optional<int> ParseNumber(std::string_view text) {
  const int base = text.starts_with("0x") ? 16 : 10;
  if (base == 16) text.remove_prefix(2);
  if (base == 16 && text.starts_with('-')) return std::nullopt;
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Returns the parts of a text between commas, empty ones included.
std::vector<std::string> SplitAtCommas(std::string_view text) {
  std::vector<std::string> parts;
  for (;;) {
    const size_t comma = std::min(text.find(','), text.size());
    parts.emplace_back(text.substr(0, comma));
    if (comma == text.size()) return parts;
    text.remove_prefix(comma + 1);
  }
}

struct Range {
  const char* what;
  int min;
  int max;
};

int ReadVariable(const char* variable, const std::string& value, int unset, const Range& range) {
  if (value.empty()) return unset;
  const auto number = ParseNumber(value);
  if (number && *number >= range.min && *number <= range.max) return *number;
  const std::string allowed = std::to_string(range.min) + " to " + std::to_string(range.max);
  throw BadValue(variable, value, std::string(range.what) + " is a number from " + allowed,
                 "a number from " + allowed);
}

}  // namespace

HcaFilter HcaFilter::Parse(const std::string& text) {
  HcaFilter filter;
  std::string_view list = text;
  if (list.starts_with('^')) {
    filter.excludes_ = true;
    list.remove_prefix(1);
  }
  if (list.starts_with('=')) {
    filter.whole_names_ = true;
    list.remove_prefix(1);
  }
  if (list.empty() && !text.empty()) throw BadFilter(text, "it does not name a device");
  if (list.empty()) return filter;
  for (const std::string& part : SplitAtCommas(list)) {
    const size_t colon = std::min(part.find(':'), part.size());
    Entry entry{.name = part.substr(0, colon)};
    if (entry.name.empty()) throw BadFilter(text, "it contains an empty name");
    if (entry.name.find_first_of("^= \t") != std::string::npos) {
      throw BadFilter(text, "'" + entry.name + "' is not a device name");
    }
    if (colon < part.size()) {
      const auto port = ParseNumber(part.substr(colon + 1));
      if (!port || *port < 1 || *port > 254) {
        throw BadFilter(text, "the port in '" + part + "' is not a number from 1 to 254");
      }
      entry.port = static_cast<uint8_t>(*port);
    }
    filter.entries_.push_back(std::move(entry));
  }
  return filter;
}

bool HcaFilter::Allows(std::string_view name, uint8_t port) const {
  if (entries_.empty()) return true;
  const bool named = std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    const bool same = whole_names_ ? name == entry.name : name.starts_with(entry.name);
    return same && (entry.port == 0 || entry.port == port);
  });
  return named != excludes_;
}

NcclEnvironment ReadNcclEnvironment(const std::function<const char*(const char*)>& get) {
  const auto value = [&](const char* variable) -> std::string {
    const char* const text = get ? get(variable) : std::getenv(variable);
    return text ? text : "";
  };
  const auto number = [&](const char* variable, int unset, const Range& range) {
    return ReadVariable(variable, value(variable), unset, range);
  };
  const NcclEnvironment unset;
  NcclEnvironment environment{
      .hca = HcaFilter::Parse(value("NCCL_IB_HCA")),
      .gid_index = number("NCCL_IB_GID_INDEX", unset.gid_index, {"a GID index", -1, 65535}),
      .traffic_class =
          static_cast<uint8_t>(number("NCCL_IB_TC", unset.traffic_class, {"a traffic class", 0, 255})),
      .service_level =
          static_cast<uint8_t>(number("NCCL_IB_SL", unset.service_level, {"a service level", 0, 15}))};
  for (const char* const variable : {"NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "NCCL_IB_TC", "NCCL_IB_SL"})
    if (!value(variable).empty()) environment.texts[variable] = value(variable);
  return environment;
}

}  // namespace warpverbs::programs
