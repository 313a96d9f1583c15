#include <algorithm>
#include <nlohmann/json.hpp>

#include "observe/output_file.hpp"
#include "observe/patient_write.hpp"
#include "observe/stats.hpp"

namespace softhca {
namespace {

struct ObjectKind {
  const char* name;
  size_t ObjectCounts::*count;
};
constexpr ObjectKind kObjects[] = {{"pd", &ObjectCounts::pds},   {"mkey", &ObjectCounts::mkeys},
                                   {"uar", &ObjectCounts::uars}, {"umem", &ObjectCounts::umems},
                                   {"cq", &ObjectCounts::cqs},   {"srq", &ObjectCounts::srqs},
                                   {"qp", &ObjectCounts::qps}};

struct Counter {
  const char* title;  ///< column title
  const char* name;   ///< JSON key
  uint64_t QpCounters::*count;
};
constexpr Counter kCounters[] = {
    {"requests", "requests", &QpCounters::requests},
    {"bytes", "request_bytes", &QpCounters::request_bytes},
    {"failed", "failed", &QpCounters::failed},
    {"CQEs", "completions", &QpCounters::completions},
    {"open", "most_open", &QpCounters::most_open},
    {"messages", "messages", &QpCounters::messages},
    {"bytes", "message_bytes", &QpCounters::message_bytes},
    {"sent", "packets_sent", &QpCounters::packets_sent},
    {"received", "packets_received", &QpCounters::packets_received},
    {"resent", "sent_again", &QpCounters::sent_again},
    {"timeouts", "timeouts", &QpCounters::timeouts},
    {"NAK out", "naks_sent", &QpCounters::naks_sent},
    {"NAK in", "naks_received", &QpCounters::naks_received},
    {"RNR out", "rnr_naks_sent", &QpCounters::rnr_naks_sent},
    {"RNR in", "rnr_naks_received", &QpCounters::rnr_naks_received},
    {"duplicate", "duplicates", &QpCounters::duplicates},
    {"early", "out_of_order", &QpCounters::out_of_order},
};

void PrintObjects(const Hca& hca) {
  const ObjectCounts exist = hca.Counts();
  for (const ObjectKind& kind : kObjects) {
    PrintError(hca.config().name + ": " + kind.name + ": " + std::to_string(exist.*kind.count) + " exist, " +
               std::to_string(hca.Created().*kind.count) + " created");
  }
}

int Width(const std::vector<QpCounters>& qps, const Counter& counter) {
  size_t width = std::string(counter.title).size();
  for (const QpCounters& qp : qps) width = std::max(width, std::to_string(qp.*counter.count).size());
  return static_cast<int>(width);
}

void PrintQps(const std::vector<QpCounters>& qps) {
  size_t name_width = 0;
  for (const QpCounters& qp : qps) name_width = std::max(name_width, qp.name.size() + qp.service.size() + 1);
  const auto row = [&](const std::string& name, const auto& cell) {
    std::string line(name);
    line.resize(name_width, ' ');
    for (const Counter& counter : kCounters) {
      const std::string text = cell(counter);
      line += std::string(static_cast<size_t>(Width(qps, counter)) + 2 - text.size(), ' ') + text;
    }
    PrintError(line);
  };
  row("", [](const Counter& counter) { return std::string(counter.title); });
  for (const QpCounters& qp : qps) {
    row(qp.name + " " + qp.service,
        [&](const Counter& counter) { return std::to_string(qp.*counter.count); });
  }
}

void PrintKinds(const QpCounters& qp, const char* what, const std::map<std::string, uint64_t>& kinds) {
  if (kinds.empty()) return;
  std::string line;
  for (const auto& [kind, count] : kinds)
    line += (line.empty() ? "" : ", ") + kind + " " + std::to_string(count);
  PrintError(qp.name + " " + what + ": " + line);
}

}  // namespace

void Print(const StatsReport& report) {
  for (const auto& hca : report.devices) PrintObjects(*hca);
  if (!report.qps.empty()) PrintQps(report.qps);
  for (const QpCounters& qp : report.qps) {
    PrintKinds(qp, "sent", qp.sent_by_kind);
    PrintKinds(qp, "received", qp.received_by_kind);
  }
  for (const auto& [reason, count] : report.drops) {
    PrintError("frames dropped, " + reason + ": " + std::to_string(count));
  }
  if (report.lost_events != 0) PrintError("events lost: " + std::to_string(report.lost_events));
}

void WriteJson(const StatsReport& report, const std::string& file) {
  nlohmann::json json = {{"devices", nlohmann::json::array()}, {"qps", nlohmann::json::array()}};
  for (const auto& hca : report.devices) {
    nlohmann::json device = {{"name", hca->config().name}};
    const ObjectCounts exist = hca->Counts();
    for (const ObjectKind& kind : kObjects) {
      device[kind.name] = {{"exist", exist.*kind.count}, {"created", hca->Created().*kind.count}};
    }
    json["devices"].push_back(std::move(device));
  }
  for (const QpCounters& qp : report.qps) {
    nlohmann::json counters = {{"name", qp.name},
                               {"service", qp.service},
                               {"sent_by_kind", qp.sent_by_kind},
                               {"received_by_kind", qp.received_by_kind}};
    for (const Counter& counter : kCounters) counters[counter.name] = qp.*counter.count;
    json["qps"].push_back(std::move(counters));
  }
  json["drops"] = report.drops;
  json["lost_events"] = report.lost_events;
  const std::string text = json.dump(2) + "\n";
  try {
    OutputFile(file, "counts").Append({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  } catch (const std::exception& error) {
    PrintError(error.what());
  }
}

}  // namespace softhca
