// The benchmark of storage to GPU memory, on a software HCA.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "gpuio_shell.hpp"

namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

/// Short runs of each method.
const std::string kShort =
    " --sizes 4k,64k --in-flight 1,4 --file 1M --seconds 0.01 --methods direct,ring+copy,pread+copy";

TEST(GpuioBenchmark, PrintsARowForEachLoad) {
  const Result result = RunShell(kShell + "run " BENCHMARK + kShort + "; left");
  EXPECT_THAT(result.output, HasSubstr("softhca, a software HCA: processor time, not a network figure\n"));
  for (const char* const order : {"sequential", "random"}) {
    for (const char* const load : {" +4 KiB +1", " +4 KiB +4", " +64 KiB +1", " +64 KiB +4"})
      EXPECT_THAT(result.output, ContainsRegex("\n" + std::string(order) + load + "( +[0-9]+){3}\n"));
  }
  EXPECT_THAT(result.output, AllOf(HasSubstr("exits with 0\n"), HasSubstr(kNothingLeft)));
}

TEST(GpuioBenchmark, RunsWithProcessesAndWithGpuMemory) {
  const Result result = RunShell(kShell + kFakeGpus + "run " BENCHMARK + kShort +
                                 " --order random --direct --processes --device cuda:0 $given; left");
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("into cuda:0, past the page cache; server and daemon are processes\n"),
                    Not(HasSubstr("sequential")), HasSubstr("exits with 0\n"), HasSubstr(kNothingLeft)));
}

TEST(GpuioBenchmark, SaysThatFioIsMissing) {
  const Result result =
      RunShell(kShell + "run env PATH=/nowhere " BENCHMARK + kShort + ",fio --order random");
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("fio is not installed (apt install fio): its column is left out.\n"),
                    HasSubstr("exits with 0\n")));
}

TEST(GpuioBenchmark, RefusesInvalidOptionsWithStatus2) {
  for (const char* const options :
       {" --sizes 4k,x", " --order up", " --methods magic", " --device moon", " --colour"}) {
    const Result result = RunShell(BENCHMARK + std::string(options));
    EXPECT_EQ(result.exit_status, 2) << options << "\n" << result.output;
    EXPECT_THAT(result.output, testing::EndsWith(" --help.\n"));
  }
  EXPECT_EQ(RunShell(BENCHMARK " --help").exit_status, 0);
}

}  // namespace
