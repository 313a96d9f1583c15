// The examples of storage to GPU memory, on a software HCA.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "gpuio_shell.hpp"

namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

TEST(GpuioDemo, MovesAFileOutOfHostMemoryAndBack) {
  const Result result = RunShell(kShell + "run " DEMO " --bytes 3000001; left");
  EXPECT_THAT(
      result.output,
      AllOf(HasSubstr("     3000001 bytes: host memory -- RDMA READ by the server --> io_uring --> file\n"),
            HasSubstr("     3000001 bytes: file --> io_uring -- RDMA WRITE by the server --> host memory\n"),
            HasSubstr("Success! All 3000001 bytes are right, there and back.\nexits with 0\n")));
  EXPECT_THAT(result.output, HasSubstr(kNothingLeft));
}

TEST(GpuioDemo, MovesAFileOutOfGpuMemoryAndBack) {
  const Result result = RunShell(kShell + kFakeGpus + "run " DEMO " --device cuda:1 --bytes 3000001; left");
  EXPECT_THAT(
      result.output,
      AllOf(HasSubstr("3000001 bytes: memory of cuda:1 -- RDMA READ by the server --> io_uring --> file\n"),
            HasSubstr("3000001 bytes: file --> io_uring -- RDMA WRITE by the server --> memory of cuda:1\n"),
            HasSubstr("Success! All 3000001 bytes are right, there and back.\nexits with 0\n")));
  EXPECT_THAT(result.output, HasSubstr(kNothingLeft));
}

TEST(GpuioDemo, LeavesAGivenFolderAsItWas) {
  const Result result = RunShell(kShell + "run " DEMO " --buffered --bytes 4k $given; left");
  EXPECT_THAT(result.output, AllOf(HasSubstr("exits with 0\n"), HasSubstr("; buffered I/O\n")));
  EXPECT_THAT(result.output, HasSubstr(kNothingLeft));
}

TEST(GpuioDemo, OverwritesNoFile) {
  const Result result =
      RunShell(kShell + "echo mine >$given/gpuio-demo.bin; run " DEMO " $given; cat $given/gpuio-demo.bin");
  EXPECT_THAT(result.output,
              ContainsRegex("gpuio-demo: Cannot open .*/gpuio-demo.bin: File exists .EEXIST.\\."));
  EXPECT_THAT(result.output, HasSubstr("exits with 1\nmine\n"));
}

TEST(GpuioDemo, SaysWhyItCannotStart) {
  const Result without_nic = RunShell(kShell + "options='--port-down all'; run " DEMO "; left");
  EXPECT_THAT(
      without_nic.output,
      AllOf(HasSubstr("gpuio-demo: Cannot start warpverbs-filed: it ended with status 1. It printed:\n"),
            HasSubstr("exits with 1\n"), HasSubstr(kNothingLeft)));
  const Result without_gpu =
      RunShell(kShell + "export CUDA_VISIBLE_DEVICES=; run " DEMO " --device cuda:99; left");
  EXPECT_THAT(without_gpu.output, AllOf(HasSubstr("in memory of cuda:99: "), HasSubstr("choose --device cpu"),
                                        HasSubstr("exits with 1\n"), HasSubstr(kNothingLeft)));
}

TEST(GpuioKvCache, FetchesWhatItHasStored) {
  const Result result = RunShell(kShell + "run " KV_CACHE " --seconds 1 --threads 4 --capacity 32M; left");
  EXPECT_THAT(
      result.output,
      AllOf(HasSubstr("4 threads, blocks of 64 KiB to 4 MiB in host memory"), HasSubstr("no network figures"),
            ContainsRegex("\nfetches +[0-9]+ +[0-9]+"), ContainsRegex("\nstores +[1-9][0-9]* +[0-9]+")));
  EXPECT_THAT(result.output, ContainsRegex("% of [1-9][0-9]* requests were hits. All [0-9]+ bytes that were "
                                           "fetched are right.\nexits with 0\n"));
  EXPECT_THAT(result.output, HasSubstr(kNothingLeft));
}

TEST(GpuioKvCache, FetchesIntoGpuMemory) {
  const Result result = RunShell(kShell + kFakeGpus +
                                 "run " KV_CACHE " --device cuda:0 --seconds 1 --threads 2 --hits 90; left");
  EXPECT_THAT(result.output, AllOf(HasSubstr("in memory of cuda:0"),
                                   HasSubstr("fetched are right.\nexits with 0\n"), HasSubstr(kNothingLeft)));
}

/// Starts the cache for an hour, and waits until it works; $pid is its process.
const std::string kLongRun = kShell + R"sh(
run sh -c 'echo $$ >"$0"; exec "$@"' $given/pid )sh" KV_CACHE
                                      R"sh( --threads 2 --seconds 3600 >$given/out 2>&1 & job=$!
await 'grep -q threads $given/out'; pid=$(cat $given/pid)
)sh";

TEST(GpuioKvCache, TidiesUpWhenASignalEndsIt) {
  const Result result = RunShell(kLongRun + "kill -TERM $pid; wait $job; cat $given/out; rm $given/*; left");
  EXPECT_THAT(result.output, HasSubstr("gpuio-kv-cache: Ended by signal 15.\nexits with 1\n"));
  EXPECT_THAT(result.output, HasSubstr(kNothingLeft));
}

// The daemon ends with it, and leaves memory of applications to the next daemon. There is none here.
TEST(GpuioKvCache, EndsItsChildrenThoughItIsKilled) {
  const Result result = RunShell(kLongRun + R"sh(
memory() { readlink $folder/*/3fs-virt/iovs/* | grep hf3fs-iov; }
await '[ $(memory | wc -l) -ge 6 ]'; memory=$(memory)
kill -KILL $pid; wait $job; await '! pgrep -f $folder >/dev/null'; rm -f $memory; echo all are gone)sh");
  EXPECT_THAT(result.output, HasSubstr("all are gone\n"));
}

TEST(GpuioKvCache, NeedsADaemonOnItsMount) {
  const Result result = RunShell(kShell + "run " KV_CACHE " --mount $given");
  EXPECT_THAT(result.output, AllOf(HasSubstr("gpuio-kv-cache: Cannot "), HasSubstr("exits with 1\n")));
}

TEST(GpuioPrograms, DescribeTheirOptions) {
  for (const char* const program : {DEMO, KV_CACHE}) {
    const Result help = RunShell(std::string(program) + " --help");
    EXPECT_EQ(help.exit_status, 0);
    EXPECT_THAT(help.output, AllOf(HasSubstr("Usage: "), HasSubstr("--device")));
  }
}

TEST(GpuioPrograms, RefuseInvalidOptionsWithStatus2) {
  for (const char* const command :
       {DEMO " --device moon", DEMO " --device cuda:", DEMO " --bytes 0", DEMO " --bytes -1",
        DEMO " /no/folder", DEMO " a b", KV_CACHE " --threads 0", KV_CACHE " --hits 101",
        KV_CACHE " --capacity 16M --threads 4", KV_CACHE " --mount /no/folder", KV_CACHE " --colour"}) {
    const Result result = RunShell(command);
    EXPECT_EQ(result.exit_status, 2) << command << "\n" << result.output;
    EXPECT_THAT(result.output, testing::EndsWith(" --help.\n"));
  }
}

}  // namespace
