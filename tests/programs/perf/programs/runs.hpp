#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "../perftest_rows.hpp"
#include "pair.hpp"

/// Helpers for tests that run warpverbs-perf as two processes, each on its own software HCA.

inline std::string TemporaryFile(const std::string& name) {
  return testing::TempDir() + "perf" + std::to_string(getpid()) + name;
}

inline std::string ReadFile(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline nlohmann::json ReadJson(const std::string& file) { return nlohmann::json::parse(ReadFile(file)); }

/// Expects that both sides succeeded and printed the same table.
inline void ExpectSuccess(const PerfPair& pair, size_t rows) {
  EXPECT_EQ(pair.client_status, 0) << pair.client;
  EXPECT_EQ(pair.server_status, 0) << pair.server;
  const std::string table = TableOf(pair.client);
  EXPECT_EQ(table, TableOf(pair.server));
  EXPECT_EQ(PerftestRows(table), rows) << table;
}

/// Runs both sides with a fake NVIDIA driver that has two GPUs.
inline PerfPair RunWithGpus(const std::string& options) {
  return RunPerfPair(options, options, "", "",
                     "LD_LIBRARY_PATH=" FAKE_CUDA_FOLDER " WARPVERBS_FAKE_CUDA=gpus=2");
}
