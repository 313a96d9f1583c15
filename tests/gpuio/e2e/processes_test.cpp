// Application, daemon and server: a process each, on a software HCA each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/run_shell.hpp"

namespace {

using testing::HasSubstr;
using testing::Not;

/// Functions of the shell that start and kill the parts. Their outputs are in $folder.
///
/// WARPVERBS_KILLS sets how often parts are killed. The shell's limit grows with it; ctest's does not: run
/// the test program itself for more than 10.
const std::string kParts = R"(
set -u
folder=$(mktemp -d)
trap 'kill -KILL $(cat $folder/*.pid 2>/dev/null) 2>/dev/null; wait 2>/dev/null; fusermount3 -uz $folder/mount 2>/dev/null; rm -rf $folder' EXIT
mkdir $folder/data
mkfifo $folder/never; exec 8<>$folder/never  # a standard input that never ends
port=0
run() { timeout -s KILL $((250 + 20 * ${WARPVERBS_KILLS:-0})) )" SOFTHCA R"( --devx-events ${options:-} -- "$@"; }
await() { for i in $(seq 600); do grep -q "$1" $2 2>/dev/null && return; sleep 0.1; done; echo "no '$1' in $2"; cat $2; exit 1; }
start() { # NAME LINE COMMAND...
  name=$1 line=$2; shift 2
  : >$folder/$name.out
  # A function's own redirections would keep descriptor 9 open in its shell.
  (exec 9>&- <&8; run sh -c 'echo $$ >"$0"; exec "$@"' $folder/$name.pid "$@") >>$folder/$name.out 2>&1 &
  await "$line" $folder/$name.out
}
filed() {
  start filed "listening" )" FILED R"( $folder/data --listen 127.0.0.1 --port $port
  port=$(sed -n 's/listening on port //p' $folder/filed.out)
}
gpuiod() { start gpuiod "serving" )" GPUIOD
                           R"( $folder/data=127.0.0.1:$port --socket $folder/socket --stats 1; }
end() { kill -$2 $(cat $folder/$1.pid); while kill -0 $(cat $folder/$1.pid) 2>/dev/null; do sleep 0.05; done; }
slay() { end $1 KILL; }
present() { while read -r file; do [ ! -e $file ] || echo left: $file; done; }
finish() { # ends the daemon once it has noticed that the applications have gone
  : >$folder/gpuiod.out; await '"clients": 0' $folder/gpuiod.out
  end gpuiod TERM; grep gpu_buffers $folder/gpuiod.out | tail -n 1
}
nap() { sleep 0.$(($(od -An -N1 -tu1 /dev/urandom) % 10)); }
app() { run )" APPLICATION R"( $folder/data "$@"; }
)";

TEST(GpuioProcesses, MoveFilesIntoAndOutOfMemory) {
  const Result result = RunShell(kParts + R"(
filed; gpuiod
app host $folder/data/host
app gpu $folder/data/gpu
finish
ls -l $folder/data/gpu $folder/data/3fs-virt $folder/data/3fs-virt/iovs)");
  EXPECT_THAT(result.output, HasSubstr("host: step 0\n"));
  EXPECT_THAT(result.output, HasSubstr("gpu: step 0\n"));
  EXPECT_THAT(result.output,
              HasSubstr(R"("clients": 0, "host_buffers": 0, "gpu_buffers": 0, "rings": 0, "files": 0)"));
  EXPECT_THAT(result.output, Not(HasSubstr("submit-ios"))) << "the daemon tidies up";
}

/// softhca maps no dma-buf of NVIDIA's driver, so the daemon opens the memory by its handle.
TEST(GpuioProcesses, MoveFilesIntoMemoryThatTheDaemonOpens) {
  const Result result = RunShell(kParts + R"(
export WARPVERBS_FAKE_CUDA=mapped_exports=0
filed
export LD_LIBRARY_PATH=)" FAKE_CUDA_FOLDER R"(; gpuiod; unset LD_LIBRARY_PATH
app gpu $folder/data/gpu
finish
cat $folder/gpuiod.out)");
  EXPECT_THAT(result.output, HasSubstr("gpu: step 0\n"));
  EXPECT_THAT(result.output, HasSubstr(R"("clients": 0, "host_buffers": 0, "gpu_buffers": 0, "rings": 0)"));
}

TEST(GpuioProcesses, BounceNothingOnTheClient) {
  const Result result = RunShell(kParts + R"(
filed
options="--pcap $folder/client.pcap"; export WARPVERBS_LOG=debug; gpuiod; unset WARPVERBS_LOG; options=
app loop $folder/data/file </dev/null | tee $folder/app.out
set -- $(grep started $folder/app.out)
end gpuiod TERM
python3 )" RDMA_TARGETS R"( $folder/client.pcap $2 $3 $4
echo "expected: read $4 written $4"
grep -o "registered [0-9]* bytes" $folder/gpuiod.out | sort | uniq -c)");
  EXPECT_THAT(result.output, HasSubstr("errors 0\n"));
  EXPECT_THAT(result.output, HasSubstr("\nread f4243 written f4243\n")) << "of 1,000,003 bytes";
  EXPECT_THAT(result.output, Not(HasSubstr("elsewhere")));
  EXPECT_THAT(result.output, testing::ContainsRegex("2 registered 1000003 bytes"));
  // Whatever else is registered has no room for the data.
  for (const char* const line : {"registered [1-9][0-9][0-9][0-9][0-9][0-9] bytes",
                                 "registered [2-9][0-9][0-9][0-9][0-9][0-9][0-9] bytes"})
    EXPECT_THAT(result.output, Not(testing::ContainsRegex(line)));
}

TEST(GpuioProcesses, MoveFilesOfAMountByFuse) {
  const Result result =
      RunShell(kParts + R"(
[ -w /dev/fuse ] || { echo no FUSE; exit; }
mkdir $folder/mount; filed
start gpuiod "serving" )" GPUIOD
                        R"( $folder/mount=127.0.0.1:$port --fuse --socket $folder/socket --stats 1
run )" APPLICATION R"( $folder/mount host $folder/mount/host
run )" APPLICATION R"( $folder/mount gpu $folder/mount/gpu
cmp $folder/mount/host $folder/data/host && echo same
finish
grep -c " $folder/mount " /proc/mounts)");
  if (result.output.find("no FUSE") != std::string::npos) GTEST_SKIP() << "this machine has no FUSE";
  EXPECT_THAT(result.output, HasSubstr("host: step 0\n"));
  EXPECT_THAT(result.output, HasSubstr("gpu: step 0\n"));
  EXPECT_THAT(result.output, HasSubstr("same\n"));
  EXPECT_THAT(result.output, HasSubstr(R"("clients": 0, "host_buffers": 0, "gpu_buffers": 0, "rings": 0)"));
  EXPECT_THAT(result.output, testing::EndsWith("\n0\n")) << "it is mounted still";
}

TEST(GpuioProcesses, GoOnWhenTheServerOrTheDaemonIsKilled) {
  const Result result = RunShell(kParts + R"(
filed; gpuiod
mkfifo $folder/in
app loop $folder/data/file <$folder/in >$folder/app.out 2>&1 & application=$!
exec 9>$folder/in
await started $folder/app.out
for i in $(seq ${WARPVERBS_KILLS:-2}); do
  nap; slay filed; filed
  readlink $folder/data/3fs-virt/iovs/submit-ios* >>$folder/semaphores
  nap; slay gpuiod; gpuiod
done
echo semaphores: $(wc -l <$folder/semaphores); present <$folder/semaphores
exec 9>&-
wait $application; echo "application ended with $?"
cat $folder/app.out)");
  EXPECT_THAT(result.output, HasSubstr("application ended with 0\n")) << result.output;
  EXPECT_THAT(result.output, testing::ContainsRegex("semaphores: [1-9]"));
  EXPECT_THAT(result.output, Not(HasSubstr("left: "))) << "of daemons that were killed";
}

TEST(GpuioProcesses, GoOnWithTheOtherServerOfTheFolder) {
  const Result result =
      RunShell(kParts + R"(
filed; first=$port
start second "listening" )" FILED R"( $folder/data --listen 127.0.0.1 --port 0
second=$(sed -n 's/listening on port //p' $folder/second.out)
start gpuiod "serving" )" GPUIOD
                        R"( $folder/data=127.0.0.1:$first,127.0.0.1:$second --socket $folder/socket
mkfifo $folder/in
app loop $folder/data/file <$folder/in >$folder/app.out 2>&1 & application=$!
exec 9>$folder/in
await started $folder/app.out
nap; slay filed
exec 9>&-
wait $application; echo "application ended with $?"
cat $folder/app.out
grep -c connected $folder/second.out)");
  EXPECT_THAT(result.output, HasSubstr("application ended with 0\n")) << result.output;
  EXPECT_THAT(result.output, HasSubstr(" errors 0\n")) << "reads and writes are repeated";
  EXPECT_THAT(result.output, testing::EndsWith("\n1\n")) << "the other server has a client";
}

TEST(GpuioProcesses, ForgetApplicationsThatAreKilled) {
  const Result result = RunShell(kParts + R"(
filed; gpuiod
for i in $(seq ${WARPVERBS_KILLS:-2}); do
  start application started )" APPLICATION R"( $folder/data loop $folder/data/file
  nap; slay application
done
start application started )" APPLICATION R"( $folder/data loop $folder/data/file
readlink $folder/data/3fs-virt/iovs/* | grep /dev/shm/hf3fs-iov >$folder/files
kill -KILL $(cat $folder/application.pid) $(cat $folder/gpuiod.pid)
slay application 2>/dev/null; slay gpuiod 2>/dev/null
gpuiod
echo files: $(wc -l <$folder/files); present <$folder/files
app gpu $folder/data/gpu
finish)");
  EXPECT_THAT(result.output, testing::ContainsRegex("files: [1-9]"));
  EXPECT_THAT(result.output, Not(HasSubstr("left: "))) << "of an application that died with its daemon";
  EXPECT_THAT(result.output, HasSubstr("gpu: step 0\n")) << result.output;
  EXPECT_THAT(result.output,
              HasSubstr(R"("clients": 0, "host_buffers": 0, "gpu_buffers": 0, "rings": 0, "files": 0)"));
}

}  // namespace
