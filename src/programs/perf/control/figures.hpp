#pragma once

#include "perf/control/control_channel.hpp"
#include "perf/measure/statistics.hpp"

/// Figures as the sides exchange them: exactly, so that both print the same rows.
namespace warpverbs::perf {

inline Json ToJson(const BandwidthFigures& figures) {
  return {{"bytes", figures.bytes},
          {"messages", figures.messages},
          {"average", figures.average},
          {"peak", figures.peak},
          {"rate", figures.rate}};
}

/// @errors  std::runtime_error: names a field that is missing or has another type
inline BandwidthFigures BandwidthFrom(const Json& json) {
  return {.bytes = Get<uint64_t>(json, "bytes"),
          .messages = Get<uint64_t>(json, "messages"),
          .average = Get<double>(json, "average"),
          .peak = Get<double>(json, "peak"),
          .rate = Get<double>(json, "rate")};
}

inline Json ToJson(const LatencyFigures& figures) {
  return {{"bytes", figures.bytes},
          {"messages", figures.messages},
          {"min", figures.min},
          {"max", figures.max},
          {"typical", figures.typical},
          {"average", figures.average},
          {"deviation", figures.deviation},
          {"p99", figures.p99},
          {"p999", figures.p999}};
}

/// @errors  as BandwidthFrom()
inline LatencyFigures LatencyFrom(const Json& json) {
  return {.bytes = Get<uint64_t>(json, "bytes"),
          .messages = Get<uint64_t>(json, "messages"),
          .min = Get<double>(json, "min"),
          .max = Get<double>(json, "max"),
          .typical = Get<double>(json, "typical"),
          .average = Get<double>(json, "average"),
          .deviation = Get<double>(json, "deviation"),
          .p99 = Get<double>(json, "p99"),
          .p999 = Get<double>(json, "p999")};
}

}  // namespace warpverbs::perf
