#include "perf/report/files.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "warpverbs/host/error.hpp"

namespace warpverbs::perf {
namespace {

std::runtime_error Failed(const char* step, const std::string& file, int error) {
  return std::runtime_error(std::string("Cannot ") + step + " " + file + ": " +
                            host::Error::DescribeErrno(error) + ".");
}

/// Returns the name of the temporary file that is renamed when it is complete.
std::string TemporaryFor(const std::string& file) { return file + "." + std::to_string(getpid()); }

}  // namespace

void CheckWritable(const std::string& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) throw Failed("write", file, EISDIR);
  const std::string temporary = TemporaryFor(file);
  errno = 0;
  const bool opened = std::ofstream(temporary).is_open();
  const int error = errno;
  std::remove(temporary.c_str());
  if (!opened) throw Failed("write", file, error);
}

void WriteWhole(const std::string& file, const std::string& text) {
  const std::string temporary = TemporaryFor(file);
  errno = 0;
  std::ofstream stream(temporary);
  stream << text << std::flush;
  const bool written = stream.good();
  const int error = errno;
  stream.close();
  if (written && std::rename(temporary.c_str(), file.c_str()) == 0) return;
  const int reason = written ? errno : error;
  std::remove(temporary.c_str());
  throw Failed("write", file, reason);
}

std::string ReadWhole(const std::string& file) {
  errno = 0;
  std::ifstream stream(file);
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (!stream.is_open() || stream.bad()) throw Failed("read", file, errno != 0 ? errno : EIO);
  return text;
}

}  // namespace warpverbs::perf
