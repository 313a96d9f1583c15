#include "perf/report/plot.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "perf/report/files.hpp"
#include "warpverbs/host/exchange.hpp"

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

/// Ends a program when it is destroyed.
class Program {
 public:
  /// Starts a program that is found in PATH. Its standard input is a file, its output is dropped.
  ///
  /// @errors  std::system_error
  Program(const char* name, int input) {
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    std::array<char*, 2> arguments{const_cast<char*>(name), nullptr};
    const int error = posix_spawnp(&process_, name, &files, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&files);
    if (error != 0) throw std::system_error(error, std::generic_category());
  }
  ~Program() {
    if (process_ == 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Returns whether the program ended by itself before the deadline.
  ///
  /// @param status  becomes its status, as waitpid() reports it
  bool EndsBefore(host::Deadline deadline, int& status) {
    while (waitpid(process_, &status, WNOHANG) == 0) {
      if (host::Deadline::clock::now() >= deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    process_ = 0;
    return true;
  }

 private:
  pid_t process_ = 0;  // 0: has ended
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

void Plot(const std::string& picture, const std::vector<std::string>& files, std::chrono::seconds timeout) {
  std::vector<PlotInput> reports;
  reports.reserve(files.size());
  for (const std::string& file : files)
    reports.push_back({file, Json::parse(ReadWhole(file), nullptr, false)});
  const std::string commands = PlotScript(picture, reports);
  const auto fail = [&](const std::string& why) {
    throw std::runtime_error("Cannot draw " + picture + ": " + why);
  };
  if (!HasGnuplot()) fail("gnuplot is not installed. Install it (gnuplot-nox on Debian).");
  // A file, because a pipe would block while gnuplot does not read.
  const std::unique_ptr<FILE, int (*)(FILE*)> script(std::tmpfile(), std::fclose);
  if (!script || std::fputs(commands.c_str(), script.get()) < 0 || std::fflush(script.get()) != 0)
    fail(std::string("its commands cannot be written: ") + std::strerror(errno) + ". Free some space in " +
         P_tmpdir + ".");
  std::rewind(script.get());
  int status = 0;
  try {
    Program gnuplot("gnuplot", fileno(script.get()));
    if (!gnuplot.EndsBefore(host::DeadlineIn(timeout), status)) {
      fail("gnuplot has not ended within " + std::to_string(timeout.count()) +
           " s. Check that it draws without a display (gnuplot-nox on Debian).");
    }
  } catch (const std::system_error& error) {
    fail("gnuplot does not start: " + error.code().message() + ". Check that it runs.");
  }
  const bool read_all = lseek(fileno(script.get()), 0, SEEK_CUR) == static_cast<off_t>(commands.size());
  if (!read_all || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    fail("gnuplot failed. Read its output above.");
}

}  // namespace warpverbs::perf
