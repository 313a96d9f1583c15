#pragma once

/// The version of the headers. CMake reads it here.
#define WARPVERBS_VERSION_MAJOR 0
#define WARPVERBS_VERSION_MINOR 2
#define WARPVERBS_VERSION_PATCH 0

/// Marks what the shared libraries export. They hide all else.
#define WARPVERBS_EXPORT __attribute__((visibility("default")))

/// All of the library is in an inline namespace that names its ABI: code built with headers of another version
/// does not link.
namespace warpverbs::inline v0_2 {

/// Returns the version of the library that the program runs with: "0.2.0".
WARPVERBS_EXPORT const char* Version();

}  // namespace warpverbs::inline v0_2
