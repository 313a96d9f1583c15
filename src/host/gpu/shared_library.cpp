#include "gpu/shared_library.hpp"

#include <string>

#include "log/log.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {

SharedLibrary::SharedLibrary(const char* name, std::span<const char* const> files, const char* remedy)
    : name_(name), remedy_(remedy) {
  std::string reason;
  for (const int flags : {RTLD_NOW | RTLD_NOLOAD, RTLD_NOW | RTLD_LOCAL}) {
    reason.clear();
    for (const char* file : files) {
      library_ = dlopen(file, flags);
      if (library_ != nullptr) {
        Log(LogLevel::kDebug, [&] { return std::string("loaded ") + file; });
        return;
      }
      if (const char* const error = dlerror(); error != nullptr && reason.empty()) reason = error;
    }
  }
  throw Error("load", name_, reason, remedy_);
}

void SharedLibrary::FailToFind(const char* function_name) const {
  throw Error("use", name_, std::string("it has no ") + function_name, remedy_);
}

}  // namespace warpverbs::inline v0_2::host
