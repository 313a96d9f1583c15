#pragma once

#include <dlfcn.h>

#include <span>

namespace warpverbs::host {

/// A vendor's library, looked for when a program needs it, so that this one is built and linked without it.
/// It stays loaded: the functions found are good until the program ends.
class SharedLibrary {
 public:
  /// Takes the first of `files` that the program has loaded already, for it has such a library only once;
  /// else the first that loads.
  ///
  /// @param name    what errors call the library
  /// @param remedy  how to get it, or a newer one
  /// @errors  Error: none loads, with the loader's reason for the first
  SharedLibrary(const char* name, std::span<const char* const> files, const char* remedy);

  /// @errors  Error: the library has no such function
  template <class Function>
  void Find(const char* function_name, Function*& function) const {
    FindIfThere(function_name, function);
    if (function == nullptr) FailToFind(function_name);
  }

  /// Finds what not every release has; else nullptr.
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

}  // namespace warpverbs::host
