#include "perf/report/report.hpp"

#include <cstdarg>
#include <cstdio>

namespace warpverbs::perf {
namespace {

constexpr double kMiB = 1 << 20, kGb = 1e9, kMillion = 1e6;

[[gnu::format(printf, 1, 2)]] std::string Format(const char* format, ...) {
  char text[320];
  va_list values;
  va_start(values, format);
  std::vsnprintf(text, sizeof text, format, values);
  va_end(values);
  return text;
}

/// Converts bytes a second to the unit of the report.
double InUnit(const Options& options, double bandwidth) {
  return options.gbits ? bandwidth * 8 / kGb : bandwidth / kMiB;
}

const char* Unit(const Options& options) { return options.gbits ? "Gb/sec" : "MiB/sec"; }

std::string TestName(const Options& options) {
  const std::string verbs[] = {"RDMA_Write", "RDMA_Read", "Send", "Atomic FETCH_AND_ADD",
                               "Atomic CMP_AND_SWAP"};
  return verbs[static_cast<size_t>(options.verb)] + (options.bidirectional ? " Bidirectional" : "") +
         (options.is_latency() ? " Latency Test" : " BW Test");
}

// Column widths equal perftest's.
std::string Columns(const Options& options, const BandwidthFigures& figures) {
  const auto bytes = static_cast<unsigned long>(figures.bytes),
             messages = static_cast<unsigned long>(figures.messages);
  const double peak = InUnit(options, figures.peak), average = InUnit(options, figures.average);
  const double rate = figures.rate / kMillion;
  return options.gbits ? Format(" %-7lu    %-10lu     %-7.6lf            %-7.6lf            %-7.6lf", bytes,
                                messages, peak, average, rate)
                       : Format(" %-7lu    %-10lu       %-7.2lf            %-7.2lf\t\t   %-7.6lf", bytes,
                                messages, peak, average, rate);
}

std::string Columns(const Options& options, const LatencyFigures& figures) {
  const auto bytes = static_cast<unsigned long>(figures.bytes),
             messages = static_cast<unsigned long>(figures.messages);
  if (options.iterations == 0) {
    return Format(" %-7lu       %-10lu     %-7.2f          %-7.2f", bytes, messages, figures.average,
                  figures.average > 0 ? kMillion / figures.average / (options.is_answered() ? 2 : 1) : 0);
  }
  return Format(
      " %-7lu %lu          %-7.2f        %-7.2f      %-7.2f  \t       %-7.2f     \t%-7.2f\t\t%-7.2f "
      "\t\t%-7.2f",
      bytes, messages, figures.min, figures.max, figures.typical, figures.average, figures.deviation,
      figures.p99, figures.p999);
}

Json Results(const Options& options, const BandwidthFigures& figures) {
  return {{"MsgSize", figures.bytes},
          {"n_iterations", figures.messages},
          {"BW_peak", InUnit(options, figures.peak)},
          {"BW_average", InUnit(options, figures.average)},
          {"MsgRate", figures.rate / kMillion}};
}

Json Results(const Options&, const LatencyFigures& figures) {
  return {{"MsgSize", figures.bytes},     {"n_iterations", figures.messages},
          {"t_min", figures.min},         {"t_max", figures.max},
          {"t_typical", figures.typical}, {"t_avg", figures.average},
          {"t_stdev", figures.deviation}, {"percentile_50", figures.typical},
          {"percentile_99", figures.p99}, {"percentile_99.9", figures.p999}};
}

Json TestInfo(const Options& options, const ReportContext& context) {
  Json info = {{"test", TestName(options)},
               {"Device", context.device},
               {"Number_of_qps", options.qps},
               {"Connection_type", "RC"},
               {"TX_depth", options.tx_depth},
               {"CQ_Moderation", options.CqModFor(options.sizes.back())},
               {"Mtu", context.mtu},
               {"Link_type", context.link_layer},
               {"GID_index", context.gid_index},
               {"Max_inline_data", options.inline_bytes},
               {"rdma_cm_QPs", options.rdma_cm ? "ON" : "OFF"},
               {"BW_unit", Unit(options)},
               {"verb", ToString(options.verb)},
               {"measure", ToString(options.measure)},
               {"scope", ToString(options.posting.scope)},
               {"sharing", options.posting.shared ? "shared" : "exclusive"},
               {"posters", options.posting.posters},
               {"batch", options.posting.batch},
               {"bidirectional", options.bidirectional},
               {"software_hca", context.software},
               {"paths", context.paths}};
  if (context.kernel) {
    info["GPU"] = context.kernel->gpu;
    info["Max_SM_clock_kHz"] = context.kernel->max_sm_clock_khz;
    info["Registers_per_thread"] = context.kernel->registers;
  }
  return info;
}

}  // namespace

std::string Separator() { return std::string(87, '-') + "\n"; }

std::string Banner(const Options& options, const ReportContext& context) {
  std::string text = Separator() + "                    " + TestName(options) + "\n";
  text += Format(" Dual-port       : OFF\t\tDevice         : %s\n", context.device.c_str());
  text += Format(" Number of qps   : %u\t\tTransport type : IB\n", options.qps);
  text += " Connection type : RC\t\tUsing SRQ      : OFF\n";
  if (!options.is_latency()) {
    text += Format(" TX depth        : %u\n", options.tx_depth);
    text += Format(" CQ Moderation   : %u\n", options.CqModFor(options.sizes.back()));
    text += Format(" Post list       : %u\n", options.posting.batch);
    text += Format(" Posters         : %u of scope %s, %s queues\n", options.posting.posters,
                   ToString(options.posting.scope), options.posting.shared ? "shared" : "exclusive");
  }
  text += Format(" Mtu             : %u[B]\n", context.mtu);
  text += Format(" Link type       : %s\n", context.link_layer.c_str());
  text += Format(" GID index       : %u\n", context.gid_index);
  text += Format(" Max inline data : %u[B]\n", options.inline_bytes);
  text += Format(" rdma_cm QPs\t : %s\n", options.rdma_cm ? "ON" : "OFF");
  text += " Data ex. method : Ethernet\n";
  if (context.kernel) {
    text += Format(" GPU             : %s, max SM clock %u[MHz]\n", context.kernel->gpu.c_str(),
                   context.kernel->max_sm_clock_khz / 1000);
    text += Format(" Kernel          : %u registers per thread\n", context.kernel->registers);
  }
  if (context.software) text += std::string(" Note            : ") + ReportContext::kSoftwareNote + "\n";
  return text + Separator();
}

std::string ColumnHeads(const Options& options, const std::string& initiator) {
  std::string head = options.initiators.size() > 1 ? " # initiator: " + initiator + "\n" : "";
  if (!options.is_latency()) {
    head += Format(" #bytes     #iterations    BW peak[%s]    BW average[%s]   MsgRate[Mpps]", Unit(options),
                   Unit(options));
  } else if (options.iterations == 0) {
    head += " #bytes        #iterations       t_avg[usec]    tps average";
  } else {
    head +=
        " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]  "
        " "
        "99% percentile[usec]   99.9% percentile[usec] ";
  }
  return head + "\n";
}

std::string ToText(const Options& options, const Row& row) {
  return std::visit([&](const auto& figures) { return Columns(options, figures); }, row.figures) + "\n";
}

Json ToJson(const Options& options, const ReportContext& context, const std::vector<Row>& rows) {
  Json all = Json::array();
  for (const Row& row : rows) {
    Json result = std::visit([&](const auto& figures) { return Results(options, figures); }, row.figures);
    result["initiator"] = row.initiator;
    all.push_back(std::move(result));
  }
  return {{"version", 1},
          {"test_info", TestInfo(options, context)},
          {"results", all.empty() ? Json::object() : all.back()},
          {"rows", all}};
}

std::string FailedThreshold(const Options& options, const Row& row) {
  if (const auto* const figures = std::get_if<BandwidthFigures>(&row.figures)) {
    const double average = InUnit(options, figures->average);
    if (!options.min_bandwidth || average >= *options.min_bandwidth) return "";
    return Format("The average bandwidth of %lu bytes is %.6g %s, below the %.6g of --min-bw.",
                  static_cast<unsigned long>(figures->bytes), average, Unit(options), *options.min_bandwidth);
  }
  const auto& latency = std::get<LatencyFigures>(row.figures);
  if (!options.max_p99_us || latency.p99 <= *options.max_p99_us) return "";
  return Format("The 99th percentile of %lu bytes is %.6g usec, above the %.6g of --max-p99.",
                static_cast<unsigned long>(latency.bytes), latency.p99, *options.max_p99_us);
}

}  // namespace warpverbs::perf
