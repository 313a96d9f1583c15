#pragma once

#include <memory>

#include "core/observer.hpp"
#include "setup/settings.hpp"

namespace softhca::uverbs {

/// Those who watch the hardware, as `--log`, `--stats` and `--trace` ask for.
///
/// @return  null: nobody
/// @errors  std::exception: a file cannot be written, or an option is malformed; a sentence
std::unique_ptr<Observer> MakeWatchers(const Settings& settings);

}  // namespace softhca::uverbs
