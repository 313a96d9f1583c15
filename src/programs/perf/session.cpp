#include "perf/session.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "common/board.hpp"
#include "perf/measure/bandwidth.hpp"
#include "perf/measure/latency.hpp"
#include "perf/party/party.hpp"
#include "perf/progress.hpp"
#include "perf/report/files.hpp"
#include "perf/report/report.hpp"
#include "text/printable.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/exchange.hpp"
#include "warpverbs/host/tcp_exchange.hpp"

namespace warpverbs::perf {
namespace {

/// How long a server waits for its client.
constexpr std::chrono::hours kWaitForClient{1};

void CheckDevice(const Options& options, const host::Device& device) {
  const uint64_t most = uint64_t{1} << device.capabilities().log_max_message;
  if (options.sizes.back() > most) {
    throw host::Error("measure messages of", std::to_string(options.sizes.back()) + " bytes",
                      device.name() + " takes " + std::to_string(most) + " at most", "Take a smaller -s");
  }
  if (options.is_atomic() && !device.capabilities().atomics()) {
    throw host::Error("measure atomics", "on " + device.name(), "the device has none",
                      "Take --test write, read or send");
  }
}

host::TcpExchange Meet(Options& options) {
  if (options.is_client())
    return host::TcpExchange::Connect({options.host, options.tcp_port}, host::DeadlineIn(options.patience));
  const host::TcpListener listener({.host = "", .port = options.tcp_port});
  options.tcp_port = listener.port();
  std::printf(
      "\n************************************\n* Waiting for client to connect... *\n"
      "************************************\n");
  std::fflush(stdout);
  std::fprintf(stderr, "warpverbs-perf: listening on port %u\n", listener.port());
  return listener.Accept(host::DeadlineIn(kWaitForClient));
}

std::string AddressLines(const char* whose, const PeerFlow& flow) {
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

/// Lines, each behind a space, as all of the banner.
std::string Indented(const std::string& lines) {
  std::string text;
  for (size_t at = 0; at < lines.size();) {
    const size_t end = std::min(lines.find('\n', at), lines.size());
    text.append(" ").append(lines, at, end - at).append("\n");
    at = end + 1;
  }
  return text;
}

/// A run from the meeting on.
class Session {
 public:
  Session(const host::Device& device, const host::Port& port, Options& options, const Steps& steps,
          Talk& talk)
      : device_(device), port_(port), options_(options), steps_(steps), talk_(talk) {}

  int Run() {
    steps_.Begin(Step::kExchangeVersions);
    ExchangeVersions(talk_);
    steps_.Begin(Step::kExchangeOptions);
    const size_t parties = ExchangeOptions(talk_, options_);
    options_.initiators.resize(parties, options_.initiators.back());
    steps_.Begin(Step::kExchangeMachines);
    Agreed agreed{.grain = ExchangeMachines(talk_)};
    steps_.Begin(Step::kCheckMtu);
    agreed.mtu = CheckMtu(talk_, options_, port_);
    for (const InitiatorKind kind : options_.initiators)
      parties_.emplace_back(device_, options_, kind, agreed, steps_);
    talk_.Swap({{"initiators", parties_.size()}}, "the word that it has its queues");  // or why it has not
    for (Party& party : parties_) {
      party.Connect(talk_, steps_);
      if (options_.verb == Verb::kSend) party.PostReceives();
    }
    Describe(agreed.mtu);
    steps_.Begin(Step::kAgreeToRun);
    talk_.Swap({{"connected", parties_.size()}}, "the word that it is connected");
    steps_.Begin(Step::kRun);
    const int status = Measure();
    steps_.Begin(Step::kAgreeToEnd);
    talk_.Swap({{"rows", rows_.size()}}, "the word that it has all rows");
    std::fputs(Rule().c_str(), stdout);
    if (!options_.json_file.empty())
      WriteWhole(options_.json_file, Dumped(ToJson(options_, setting_, rows_), 2) + "\n");
    return status;
  }

 private:
  void Describe(uint32_t mtu) {
    setting_ = {.device = device_.name(),
                .link_layer = port_.link_layer == host::LinkLayer::kEthernet ? "Ethernet" : "IB",
                .mtu = mtu,
                .gid_index = parties_.front().endpoint(0).address().gid.index,
                .software = programs::IsSoftwareBoard(programs::BoardOf(device_))};
    std::string addresses;
    for (const Party& party : parties_) {
      for (uint32_t i = 0; i < party.flows(); ++i) addresses += AddressLines("local", party.Own(i));
      for (uint32_t i = 0; i < party.flows(); ++i) addresses += AddressLines("remote", party.Theirs(i));
      setting_.paths.push_back(party.Describe());
      if (const auto kernel = party.Kernel()) setting_.kernel = kernel;
    }
    std::string text = Banner(options_, setting_) + addresses + Rule();
    for (const std::string& path : setting_.paths) text += Indented(path) + Rule();
    std::fputs(text.c_str(), stdout);
  }

  int Measure() {
    int status = 0;
    for (Party& party : parties_) status = std::max(status, MeasureTable(party));
    return status;
  }

  int MeasureTable(Party& party) {
    int status = 0;
    const std::string initiator = InitiatorOf(party);
    std::fputs(Head(options_, initiator).c_str(), stdout);
    std::fflush(stdout);
    for (const uint64_t size : options_.sizes) {
      rows_.push_back(MeasureRow(party, initiator, size));
      std::fputs(Text(options_, rows_.back()).c_str(), stdout);
      std::fflush(stdout);
      const std::string missed = Missed(options_, rows_.back());
      if (missed.empty()) continue;
      std::fprintf(stderr, "warpverbs-perf: %s\n", missed.c_str());
      status = 1;
    }
    return status;
  }

  /// Who measures is the client's: the server may stand in with one initiator for both of the client's.
  std::string InitiatorOf(const Party& party) {
    const char* const mine = party.initiator().name();
    const auto theirs = Get<std::string>(talk_.Swap({{"initiator", mine}}, "its initiator"), "initiator");
    return options_.is_client() ? mine : programs::Printable(theirs, 8);
  }

  Row MeasureRow(Party& party, const std::string& initiator, uint64_t size) {
    const Progress progress(size, party.initiator().name(), options_.duration_s);
    Row row{.initiator = initiator, .figures = {}};
    if (options_.is_latency()) {
      row.figures = MeasureLatency(party, talk_, options_, size);
    } else {
      row.figures = MeasureBandwidth(party, talk_, options_, size);
    }
    return row;
  }

  const host::Device& device_;
  const host::Port& port_;
  Options& options_;
  const Steps& steps_;
  Talk& talk_;
  std::deque<Party> parties_;
  Setting setting_;
  std::vector<Row> rows_;
};

}  // namespace

int RunSession(Options options, const Steps& steps) {
  if (!options.json_file.empty()) CheckWritable(options.json_file);
  steps.Begin(Step::kFindDevice);
  const programs::NicAndPort where = options.fabric.FirstActivePort();
  if (options.nic_port == 0) options.nic_port = where.port;
  steps.Begin(Step::kOpenDevice);
  const host::Device device(where.nic);
  steps.Begin(Step::kCheckDevice);
  CheckDevice(options, device);
  steps.Begin(Step::kCheckLink);
  const host::Port port = device.ActivePort(options.nic_port);
  options.nic_port = port.number;
  steps.Begin(Step::kMeet);
  host::TcpExchange exchange = Meet(options);
  Talk talk(exchange, options.patience);
  try {
    return Session(device, port, options, steps, talk).Run();
  } catch (const PeerFailed&) {
    throw;
  } catch (const std::exception& error) {
    talk.Fail(error.what());
    throw;
  }
}

}  // namespace warpverbs::perf
