#pragma once

#include <dlfcn.h>

#include <span>

namespace warpverbs::inline v0_2::host {

/// A vendor's library, loaded on demand, so that this one is built and linked without it. It stays loaded:
/// its functions are valid until the program ends.
class SharedLibrary {
 public:
  /// Takes the first of `files` that the program has already loaded, because a program must not have two
  /// copies. Otherwise loads the first one that exists.
  ///
  /// @param name    name of the library in errors
  /// @param remedy  how to get the library, or a newer one
  /// @errors  Error: none can be loaded; has the loader's reason for the first
  SharedLibrary(const char* name, std::span<const char* const> files, const char* remedy);

  /// @errors  Error: the library lacks the function
  template <class Function>
  void Find(const char* function_name, Function*& function) const {
    FindIfThere(function_name, function);
    if (function == nullptr) FailToFind(function_name);
  }

  /// Returns a function that not every release has, or nullptr.
  template <class Function>
  void FindIfThere(const char* function_name, Function*& function) const {
    function = reinterpret_cast<Function*>(dlsym(library_, function_name));
  }

 private:
  [[noreturn]] void FailToFind(const char* function_name) const;

  const char* name_;
  const char* remedy_;
  void* library_ = nullptr;
};

}  // namespace warpverbs::inline v0_2::host
