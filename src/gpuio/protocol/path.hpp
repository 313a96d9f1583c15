#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio::protocol {

inline constexpr size_t kMaxPathBytes = 4095;
inline constexpr size_t kMaxNameBytes = 255;

/// Says whether a path may be in a request: names of 1 to 255 bytes with "/" between them, none of them "."
/// or "..", no NUL; or "", the root.
bool IsPlainPath(std::string_view path);

/// Returns a path as a request has it: without "." and repeated "/", and without a "/" at either end.
///
/// @return  empty: the path has "..", a NUL or a name that is too long, or is too long itself
std::optional<std::string> ToPlainPath(std::string_view path);

/// Returns why ToPlainPath() refuses a path: ENAMETOOLONG, or EINVAL.
int PathError(std::string_view path);

/// The folder that a path is in, and its name there.
struct ParentAndName {
  std::string parent{}, name{};
};

/// Splits a plain path; the root has no name.
ParentAndName SplitPath(std::string_view path);

}  // namespace warpverbs::inline v0_2::gpuio::protocol
