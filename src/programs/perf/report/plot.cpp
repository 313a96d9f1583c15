#include "perf/report/plot.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <stdexcept>

#include "perf/report/files.hpp"

namespace warpverbs::perf {
namespace {

constexpr double kMiBPerGb = 1e9 / 8 / (1 << 20);

struct Point {
  double bytes = 0, value = 0;
};

/// A line of the picture.
struct Curve {
  std::string title;
  std::vector<Point> points;
};

struct Panel {
  std::string y_label;
  std::string key;  // corner of the legend: the one without curves
  std::vector<Curve> curves;
};

std::string Quote(const std::string& text) {
  std::string quoted = "'";
  for (const char letter : text) quoted += letter == '\'' ? "''" : std::string(1, letter);
  return quoted + "'";
}

bool IsLatency(const Json& report) { return report.at("test_info").at("measure") == "latency"; }

std::vector<Point> PointsOf(const Json& report, const std::string& initiator, const char* field,
                            double scale) {
  std::vector<Point> points;
  for (const Json& row : report.at("rows")) {
    if (row.at("initiator") == initiator)
      points.push_back({row.at("MsgSize"), row.at(field).get<double>() * scale});
  }
  return points;
}

std::vector<std::string> InitiatorsOf(const Json& report) {
  std::map<std::string, bool> seen;
  std::vector<std::string> initiators;
  for (const Json& row : report.at("rows")) {
    const std::string name = row.at("initiator");
    if (!std::exchange(seen[name], true)) initiators.push_back(name);
  }
  return initiators;
}

/// "results.json: write, gpu"
std::string TitleOf(const PlotInput& plotted, const std::string& initiator) {
  const std::string verb = plotted.report.at("test_info").at("verb");
  return std::filesystem::path(plotted.file).stem().string() + ": " + verb + ", " + initiator;
}

/// Returns the panel of bandwidths, all in the unit of the first report.
Panel Bandwidths(const std::vector<PlotInput>& reports) {
  std::string unit;
  Panel panel{.y_label = "", .key = "bottom right", .curves = {}};
  for (const PlotInput& plotted : reports) {
    if (IsLatency(plotted.report)) continue;
    const std::string own = plotted.report.at("test_info").at("BW_unit");
    if (unit.empty()) unit = own;
    const double scale = own == unit ? 1 : own == "Gb/sec" ? kMiBPerGb : 1 / kMiBPerGb;
    for (const std::string& initiator : InitiatorsOf(plotted.report))
      panel.curves.push_back(
          {TitleOf(plotted, initiator), PointsOf(plotted.report, initiator, "BW_average", scale)});
  }
  panel.y_label = "average bandwidth [" + unit + "]";
  return panel;
}

Panel Latencies(const std::vector<PlotInput>& reports) {
  Panel panel{.y_label = "latency [usec]", .key = "top left", .curves = {}};
  for (const PlotInput& plotted : reports) {
    if (!IsLatency(plotted.report)) continue;
    for (const std::string& initiator : InitiatorsOf(plotted.report)) {
      const std::string title = TitleOf(plotted, initiator);
      panel.curves.push_back({title + ", median", PointsOf(plotted.report, initiator, "percentile_50", 1)});
      panel.curves.push_back({title + ", 99 %", PointsOf(plotted.report, initiator, "percentile_99", 1)});
    }
  }
  return panel;
}

void Draw(std::ostream& script, const Panel& panel) {
  script << "set ylabel " << Quote(panel.y_label) << "\nset key " << panel.key << " noenhanced\nplot";
  const char* comma = " ";
  for (const Curve& curve : panel.curves) {
    script << std::exchange(comma, ", ")
           << "'-' using 1:2 with linespoints linewidth 1.5 pointsize 0.7 title " << Quote(curve.title);
  }
  script << "\n";
  for (const Curve& curve : panel.curves) {
    for (const Point& point : curve.points) script << point.bytes << ' ' << point.value << '\n';
    script << "e\n";
  }
}

bool HasGnuplot() {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access((folder + "/gnuplot").c_str(), X_OK) == 0) return true;
  return false;
}

/// Ignores SIGPIPE during its lifetime, so that writing to a closed pipe fails with EPIPE.
class SigpipeIgnored {
 public:
  SigpipeIgnored() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, &before_);
  }
  ~SigpipeIgnored() { sigaction(SIGPIPE, &before_, nullptr); }
  SigpipeIgnored(const SigpipeIgnored&) = delete;
  SigpipeIgnored& operator=(const SigpipeIgnored&) = delete;

 private:
  struct sigaction before_ {};
};

}  // namespace

std::string PlotScript(const std::string& picture, const std::vector<PlotInput>& reports) {
  std::vector<Panel> panels;
  bool software = false;
  for (const PlotInput& plotted : reports) {
    try {
      software |= plotted.report.at("test_info").at("software_hca").get<bool>();
      if (plotted.report.at("rows").empty()) throw std::runtime_error("no rows");
      Bandwidths({plotted});  // throws if a field is missing
      Latencies({plotted});
    } catch (const std::exception&) {
      throw std::runtime_error(plotted.file +
                               " is not a report of warpverbs-perf. Use files of --out_json_file.");
    }
  }
  for (Panel& panel : std::vector<Panel>{Bandwidths(reports), Latencies(reports)})
    if (!panel.curves.empty()) panels.push_back(std::move(panel));
  std::ostringstream script;
  script.precision(10);
  const size_t height = 480 * panels.size();
  script << "set terminal " << (picture.ends_with(".svg") ? "svg background rgb 'white'" : "pngcairo")
         << " size 900," << height << " font 'sans,12'\nset output " << Quote(picture) << "\n"
         << "set logscale x 2\nset logscale y\nset xtics 1,4\nset format x '%.0b%B'\n"
         << "set xlabel 'message size [bytes]'\nset lmargin 11\nset border 3\nset tics nomirror\n"
         << "set grid xtics ytics linetype 1 linewidth 0.5 linecolor rgb '#d0d0d0'\n";
  if (software) script << "set title 'software HCA: measures processors, not a network'\n";
  if (panels.size() > 1) script << "set multiplot layout " << panels.size() << ",1\n";
  for (const Panel& panel : panels) Draw(script, panel);
  if (panels.size() > 1) script << "unset multiplot\n";
  script << "set output\n";
  return script.str();
}

void Plot(const std::string& picture, const std::vector<std::string>& files) {
  std::vector<PlotInput> reports;
  reports.reserve(files.size());
  for (const std::string& file : files)
    reports.push_back({file, Json::parse(ReadWhole(file), nullptr, false)});
  const std::string script = PlotScript(picture, reports);
  if (!HasGnuplot())
    throw std::runtime_error("Cannot draw " + picture +
                             ": gnuplot is not installed. Install it (gnuplot-nox on Debian).");
  // If gnuplot cannot open the picture's file, it writes the picture to stdout.
  FILE* const gnuplot = popen("exec gnuplot >/dev/null", "we");
  if (gnuplot == nullptr)
    throw std::runtime_error("Cannot draw " + picture + ": gnuplot does not start. Check that it runs.");
  const SigpipeIgnored guard;  // after popen(): the child keeps the default
  const bool written = std::fputs(script.c_str(), gnuplot) >= 0 && std::fflush(gnuplot) == 0;
  const int status = pclose(gnuplot);
  if (!written || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw std::runtime_error("Cannot draw " + picture + ": gnuplot failed. Read its output above.");
}

}  // namespace warpverbs::perf
