#include "meeting.hpp"

#include <limits>
#include <regex>
#include <stdexcept>

warpverbs::host::TcpAddress ParseMeeting(const std::string& text, bool listens) {
  static const std::regex listening(R"((?:(\[.+\]|[^:\[\]]+):)?([0-9]{1,5}))");
  static const std::regex connecting(R"((\[.+\]|[^:\[\]]+)(?::([0-9]{1,5}))?)");
  std::smatch parts;
  const bool fits = std::regex_match(text, parts, listens ? listening : connecting);
  const int port = fits && parts[2].matched ? std::stoi(parts[2]) : kMeetingPort;
  if (!fits || port > std::numeric_limits<uint16_t>::max())
    throw std::invalid_argument("'" + text + "' is not of the form " +
                                (listens ? "[HOST:]PORT" : "HOST[:PORT]"));
  std::string host = parts[1];
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  return {host, static_cast<uint16_t>(port)};
}
