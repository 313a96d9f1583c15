#include "setup/watchers.hpp"

#include "observe/log.hpp"
#include "observe/observers.hpp"
#include "observe/stats.hpp"
#include "observe/trace.hpp"

namespace softhca::uverbs {

std::unique_ptr<Observer> MakeWatchers(const Settings& settings) {
  auto watchers = std::make_unique<Observers>();
  if (!settings.log.empty()) watchers->Add(std::make_unique<Log>(ParseLog(settings.log)));
  if (settings.stats) watchers->Add(std::make_unique<Stats>(settings.stats_file));
  if (!settings.trace.empty()) watchers->Add(std::make_unique<Trace>(settings.trace));
  if (watchers->empty()) return nullptr;
  return watchers;
}

}  // namespace softhca::uverbs
