#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "common/accept_client.hpp"
#include "common/device_selection.hpp"
#include "perf/measure/measure.hpp"
#include "perf/options/command_line.hpp"
#include "perf/progress.hpp"
#include "perf/report/files.hpp"
#include "perf/report/plot.hpp"
#include "perf/report/report.hpp"
#include "perf/side/side.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/exchange.hpp"
#include "warpverbs/host/tcp_exchange.hpp"

namespace warpverbs::perf {
namespace {

void CheckDevice(const Options& options, const host::Device& device) {
  const uint64_t max = uint64_t{1} << device.capabilities().log_max_message;
  if (options.sizes.back() > max) {
    throw host::Error("measure messages of", std::to_string(options.sizes.back()) + " bytes",
                      device.name() + " supports at most " + std::to_string(max), "Use a smaller -s");
  }
  if (options.is_atomic() && !device.capabilities().atomics()) {
    throw host::Error("measure atomics", "on " + device.name(), "the device does not support them",
                      "Use --test write, read or send");
  }
}

/// Does a part of a run. Tells the peer if it fails, unless the peer did.
template <class Part>
auto TellingFailures(ControlChannel& control, const Part& part) {
  try {
    return part();
  } catch (const PeerFailed&) {
    throw;
  } catch (const std::exception& error) {
    control.Fail(error.what());
    throw;
  }
}

/// Connects to the peer, and compares versions with it.
host::TcpExchange MeetPeer(Options& options, const StepLog& steps) {
  const auto introduce = [&](host::TcpExchange& peer, host::Deadline deadline) {
    steps.Begin(Step::kExchangeVersions);
    ControlChannel control(peer, deadline - std::chrono::steady_clock::now());
    TellingFailures(control, [&] { ExchangeVersions(control); });
  };
  steps.Begin(Step::kMeet);
  if (options.is_client()) {
    host::TcpExchange server =
        host::TcpExchange::Connect({options.host, options.tcp_port}, host::DeadlineIn(options.timeout));
    introduce(server, host::DeadlineIn(options.timeout));
    return server;
  }
  const host::TcpListener listener({.host = "", .port = options.tcp_port});
  options.tcp_port = listener.port();
  std::printf(
      "\n************************************\n* Waiting for client to connect... *\n"
      "************************************\n");
  std::fflush(stdout);
  std::fprintf(stderr, "warpverbs-perf: listening on port %u\n", listener.port());
  return programs::AcceptClient(listener, host::DeadlineIn(options.wait_for_client), options.timeout,
                                introduce, [&](const std::string& line) {
                                  std::fprintf(stderr, "warpverbs-perf: %s\n", line.c_str());
                                  steps.Begin(Step::kMeet);
                                });
}

std::string AddressLines(const char* whose, const FlowAddress& flow) {
  char text[200];
  std::snprintf(text, sizeof text, " %s address: LID %#04x QPN %#06x PSN %#06x RKey %#08x VAddr %#016llx\n",
                whose, flow.lid, flow.qpn, flow.psn, flow.rkey, static_cast<unsigned long long>(flow.target));
  std::string lines = std::string(text) + " GID: ";
  for (size_t i = 0; i < flow.gid.raw.size(); ++i) {
    std::snprintf(text, sizeof text, "%s%02d", i == 0 ? "" : ":", flow.gid.raw[i]);
    lines += text;
  }
  return lines + "\n";
}

/// Returns lines with a leading space, like those of the banner.
std::string Indented(const std::string& lines) {
  std::string text;
  for (size_t at = 0; at < lines.size();) {
    const size_t end = std::min(lines.find('\n', at), lines.size());
    text.append(" ").append(lines, at, end - at).append("\n");
    at = end + 1;
  }
  return text;
}

/// A run, from the exchange of options on.
class Session {
 public:
  Session(const host::Device& device, const host::Port& port, Options& options, const StepLog& steps,
          ControlChannel& control)
      : device_(device), port_(port), options_(options), steps_(steps), control_(control) {}

  int Run() {
    steps_.Begin(Step::kExchangeOptions);
    const size_t sides = ExchangeOptions(control_, options_);
    options_.initiators.resize(sides, options_.initiators.back());
    steps_.Begin(Step::kExchangeAlignment);
    Agreement agreement{.alignment = ExchangeAlignment(control_)};
    steps_.Begin(Step::kCheckMtu);
    agreement.mtu = CheckMtu(control_, options_, port_);
    for (const InitiatorKind kind : options_.initiators)
      sides_.emplace_back(device_, options_, kind, agreement, steps_);
    control_.Swap({{"initiators", sides_.size()}},
                  "its notice that it has its queues");  // or the reason why not
    for (PerfSide& side : sides_) {
      side.Connect(control_, steps_);
      if (options_.verb == Verb::kSend) side.PostReceives();
    }
    Describe(agreement.mtu);
    steps_.Begin(Step::kAgreeToRun);
    control_.Swap({{"connected", sides_.size()}}, "its notice that it is connected");
    steps_.Begin(Step::kRun);
    const int status = Measure();
    steps_.Begin(Step::kAgreeToEnd);
    control_.Swap({{"rows", rows_.size()}}, "its notice that it has all rows");
    std::fputs(Separator().c_str(), stdout);
    if (!options_.json_file.empty())
      WriteWhole(options_.json_file, Serialize(ToJson(options_, context_, rows_), 2) + "\n");
    return status;
  }

 private:
  void Describe(uint32_t mtu) {
    context_ = {.device = device_.name(),
                .link_layer = port_.link_layer == host::LinkLayer::kEthernet ? "Ethernet" : "IB",
                .mtu = mtu,
                .gid_index = sides_.front().endpoint(0).address().gid.index,
                .software = programs::IsSoftwareBoard(programs::BoardOf(device_))};
    std::string addresses;
    for (const PerfSide& side : sides_) {
      for (uint32_t i = 0; i < side.flows(); ++i) addresses += AddressLines("local", side.LocalAddress(i));
      for (uint32_t i = 0; i < side.flows(); ++i) addresses += AddressLines("remote", side.RemoteAddress(i));
      context_.paths.push_back(side.Describe());
      if (const auto kernel = side.Kernel()) context_.kernel = kernel;
    }
    std::string text = Banner(options_, context_) + addresses + Separator();
    for (const std::string& path : context_.paths) text += Indented(path) + Separator();
    std::fputs(text.c_str(), stdout);
  }

  int Measure() {
    int status = 0;
    for (PerfSide& side : sides_) status = std::max(status, MeasureTable(side));
    return status;
  }

  int MeasureTable(PerfSide& side) {
    int status = 0;
    const std::string initiator = InitiatorOf(side);
    std::fputs(ColumnHeads(options_, initiator).c_str(), stdout);
    std::fflush(stdout);
    for (const uint64_t size : options_.sizes) {
      rows_.push_back(MeasureRow(side, initiator, size));
      std::fputs(ToText(options_, rows_.back()).c_str(), stdout);
      std::fflush(stdout);
      const std::string failed_threshold = FailedThreshold(options_, rows_.back());
      if (failed_threshold.empty()) continue;
      std::fprintf(stderr, "warpverbs-perf: %s\n", failed_threshold.c_str());
      status = 1;
    }
    return status;
  }

  /// Returns the name of the client's initiator: a server may have one initiator for both of the client's.
  std::string InitiatorOf(const PerfSide& side) {
    const char* const mine = side.initiator().name();
    const auto theirs = Get<std::string>(control_.Swap({{"initiator", mine}}, "its initiator"), "initiator");
    return options_.is_client() ? mine : host::PrintableText(theirs, 8);
  }

  Row MeasureRow(PerfSide& side, const std::string& initiator, uint64_t size) {
    const Progress progress(size, side.initiator().name(), options_.duration_s);
    Row row{.initiator = initiator, .figures = {}};
    if (options_.is_latency()) {
      row.figures = MeasureLatency(side, control_, options_, size);
    } else {
      row.figures = MeasureBandwidth(side, control_, options_, size);
    }
    return row;
  }

  const host::Device& device_;
  const host::Port& port_;
  Options& options_;
  const StepLog& steps_;
  ControlChannel& control_;
  std::deque<PerfSide> sides_;
  ReportContext context_;
  std::vector<Row> rows_;
};

/// Measures as server or as client, and prints the report.
///
/// @return  the exit status
/// @errors  std::exception: a sentence; the peer has been told
int RunMeasurement(Options options, const StepLog& steps) {
  if (!options.json_file.empty()) CheckWritable(options.json_file);
  steps.Begin(Step::kFindDevice);
  const programs::NicAndPort where = options.selection.FirstActivePort();
  if (options.nic_port == 0) options.nic_port = where.port;
  steps.Begin(Step::kOpenDevice);
  const host::Device device(where.nic);
  steps.Begin(Step::kCheckDevice);
  CheckDevice(options, device);
  steps.Begin(Step::kCheckLink);
  const host::Port port = device.ActivePort(options.nic_port);
  options.nic_port = port.number;
  if (!options.is_client()) {  // a client meets its server at once, and tells it what fails
    for (const InitiatorKind kind : options.initiators) PerfSide::Check(device, options, kind);
  }
  host::TcpExchange exchange = MeetPeer(options, steps);
  ControlChannel control(exchange, options.timeout);
  return TellingFailures(control, [&] { return Session(device, port, options, steps, control).Run(); });
}

}  // namespace
}  // namespace warpverbs::perf

namespace perf = warpverbs::perf;

int main(int argc, char** argv) try {
  const auto parsed = perf::ParseOptions(argc, argv);
  if (const auto* const exit = std::get_if<warpverbs::programs::EarlyExit>(&parsed)) {
    std::fputs(exit->text.c_str(), exit->status == 0 ? stdout : stderr);
    return exit->status;
  }
  const auto& options = std::get<perf::Options>(parsed);
  if (!options.plot_file.empty()) {
    perf::Plot(options.plot_file, options.plotted);
    return 0;
  }
  const perf::StepLog steps(options.verbose);
  steps.Begin(perf::Step::kParse);
  return perf::RunMeasurement(options, steps);
} catch (const std::exception& error) {
  std::fprintf(stderr, "warpverbs-perf: %s\n", error.what());
  return 1;
}
