#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <climits>
#include <random>

#include "gpuio/control/messages.hpp"
#include "gpuio/control/packet_socket.hpp"
#include "gpuio/mount_fixture.hpp"
#include "gpuio/ring/layout.hpp"
#include "host/memory/registration_calls.hpp"

/// Applications that send nonsense, or write it to their rings. The others go on.
namespace warpverbs::inline v0_2::gpuio {
namespace {

/// Truncates files that the daemon has mapped.
class HostileTruncation : public testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    // Its runtime holds a lock while it executes an atomic operation. So one that meets the end of a file
    // waits forever for those of the daemon's handler.
    GTEST_SKIP() << "ThreadSanitizer's atomic operations must not meet the end of a file";
#endif
  }
};

/// A client that writes its own messages.
struct RawClient {
  explicit RawClient(const ServedMount& mount) {
    std::string path;
    EXPECT_EQ(ReadLink(DaemonLinkOf(mount.path()), path), 0);
    EXPECT_EQ(ConnectPackets(path, socket), 0);
  }

  /// Sends a message. @return  errno value of the reply; -1: the daemon has closed the connection
  int Send(const std::vector<uint8_t>& bytes, int file = -1) {
    if (SendPacket(socket.get(), bytes, file) != 0) return -1;
    Packet packet;
    int error = EAGAIN;
    Eventually([&] { return (error = ReceivePacket(socket.get(), packet)) != EAGAIN; });
    if (error != 0) return -1;
    const auto reply = ControlReply::Decode(packet.bytes);
    return reply ? static_cast<int>(reply->error) : -2;
  }
  int Ask(const decltype(ControlRequest::body)& body, int file = -1) {
    return Send(ControlRequest{.sequence = 1, .body = body}.Encode(), file);
  }

  host::FileDescriptor socket;
};

/// A file of /dev/shm, and a link to it.
struct RawLink {
  RawLink(const ServedMount& mount, const std::string& link_name, size_t bytes)
      : name(link_name),
        link(mount.IovFolder() + "/" + name),
        file("hf3fs-iov-hostile-" + std::to_string(getpid())) {
    fd = host::FileDescriptor(shm_open(("/" + file).c_str(), O_CREAT | O_EXCL | O_RDWR, 0600));
    EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
    std::filesystem::create_symlink("/dev/shm/" + file, link);
    memory = static_cast<std::byte*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0));
    size = bytes;
  }
  ~RawLink() {
    munmap(memory, size);
    shm_unlink(("/" + file).c_str());
  }
  RawLink(const RawLink&) = delete;
  RawLink& operator=(const RawLink&) = delete;

  std::string name, link, file;
  host::FileDescriptor fd;
  std::byte* memory;
  size_t size;
};

const std::string kName = "00112233445566778899aabbccddeeff";

/// Checks that another application is served.
void ExpectServes(ServedMount& mount) {
  mount.WriteFile("file", "text");
  hf3fs_iov iov{};
  hf3fs_ior ior{};
  ASSERT_EQ(hf3fs_iovcreate(&iov, mount.path(), 4096, 0, -1), 0);
  ASSERT_EQ(hf3fs_iorcreate(&ior, mount.path(), 8, true, 0, -1), 0);
  const OpenedHere file(mount.File("file"), O_RDONLY);
  ASSERT_LE(hf3fs_reg_fd(file.fd, 0), 0);
  ASSERT_GE(hf3fs_prep_io(&ior, &iov, true, iov.base, file.fd, 0, 4, nullptr), 0);
  ASSERT_EQ(hf3fs_submit_ios(&ior), 0);
  EXPECT_EQ(WaitForOne(ior).result, 4);
  hf3fs_dereg_fd(file.fd);
  hf3fs_iordestroy(&ior);
  hf3fs_iovdestroy(&iov);
}

TEST(Hostile, MessagesEndTheirConnection) {
  ServedMount mount;
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    std::vector<uint8_t> bytes(1 + random() % 300);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    RawClient client(mount);
    EXPECT_EQ(client.Send(bytes), -1);
  }
  RawClient client(mount);
  EXPECT_EQ(client.Send(std::vector<uint8_t>(kMaxControlBytes + 1)), -1);
  EXPECT_TRUE(Eventually([&] { return mount.Statistics().clients == 0; }));
  EXPECT_EQ(mount.Statistics().refused_clients, 201u);
  ExpectServes(mount);
}

TEST(Hostile, RequestsAreRefused) {
  ServedMount mount;
  RawClient client(mount);
  EXPECT_EQ(client.Ask(AttachRequest{kName}), ENOENT);
  EXPECT_EQ(client.Ask(DetachRequest{kName}), 0);
  EXPECT_EQ(client.Ask(PublishRequest{.name = kName}), EINVAL) << "memory of the host is not published";
  EXPECT_EQ(client.Ask(PublishRequest{.name = kName + ".gdr.d0"}), EINVAL) << "the description is damaged";
  std::filesystem::create_symlink("gdr://v2/device/0/allocation/1/offset/0/size/1/dmabuf",
                                  mount.IovFolder() + "/" + kName + ".gdr.d0");
  EXPECT_EQ(client.Ask(AttachRequest{kName + ".gdr.d0"}), ENOENT) << "it was not published";
  EXPECT_EQ(client.Ask(OpenFileRequest{.inode = 1, .path = "absent", .reads = true}), ENOENT);
  mount.WriteFile("file", "x");
  EXPECT_EQ(client.Ask(OpenFileRequest{.inode = 1, .path = "file", .reads = true}), ESTALE)
      << "it has another inode";
  EXPECT_EQ(client.Ask(CloseFileRequest{.inode = 1, .reads = true}), EBADF);
  EXPECT_EQ(mount.files().open_files(), 0u);
}

TEST(Hostile, WaitersOfOneAttachAreLimited) {
  constexpr uint32_t kRequests = 100;
  ServedMount mount;
  const RawLink link(mount, kName, 4096);
  RawClient client(mount);
  host::HoldRegistrations(true);
  for (uint32_t sequence = 1; sequence <= kRequests; ++sequence) {
    const ControlRequest request{.sequence = sequence, .body = AttachRequest{kName}};
    EXPECT_EQ(SendPacket(client.socket.get(), request.Encode(), -1), 0);
  }
  Packet packet;
  int error = EAGAIN;
  EXPECT_TRUE(Eventually([&] { return (error = ReceivePacket(client.socket.get(), packet)) != EAGAIN; }));
  host::HoldRegistrations(false);
  ASSERT_EQ(error, 0);
  EXPECT_EQ(ControlReply::Decode(packet.bytes).value().error, static_cast<uint32_t>(EAGAIN));
  ExpectServes(mount);
}

TEST(Hostile, LinksToOtherFilesAreRefused) {
  ServedMount mount;
  RawClient client(mount);
  const std::string link = mount.IovFolder() + "/" + kName;
  for (const char* const target : {"/etc/passwd", "/dev/shm/../passwd", "/dev/shm/", "/proc/self/mem"}) {
    std::filesystem::create_symlink(target, link);
    EXPECT_EQ(client.Ask(AttachRequest{kName}), EINVAL) << target;
    std::filesystem::remove(link);
  }
  const RawLink memory(mount, kName, 4096);
  std::filesystem::remove(memory.link);
  const std::string shm_link = "/dev/shm/hf3fs-iov-link-" + std::to_string(getpid());
  std::filesystem::create_symlink("/dev/shm/" + memory.file, shm_link);
  std::filesystem::create_symlink(shm_link, link);
  EXPECT_EQ(client.Ask(AttachRequest{kName}), ELOOP);
  std::filesystem::remove(shm_link);
}

TEST(Hostile, NameThatIsTakenIsRefused) {
  ServedMount mount;
  RawClient one(mount), two(mount);
  const RawLink memory(mount, kName, 4096);
  EXPECT_EQ(one.Ask(AttachRequest{kName}), 0);
  EXPECT_EQ(one.Ask(AttachRequest{kName}), 0);
  EXPECT_EQ(two.Ask(AttachRequest{kName}), EEXIST);
  EXPECT_EQ(two.Ask(DetachRequest{kName}), 0) << "it has nothing to detach";
  EXPECT_EQ(mount.Statistics().host_buffers, 1u);
  std::filesystem::create_symlink("/dev/shm/" + memory.file, memory.link + ".b4096");
  EXPECT_EQ(two.Ask(AttachRequest{kName + ".b4096"}), EEXIST) << "the id is taken";
  two.socket.Close();
  EXPECT_TRUE(Eventually([&] { return mount.Statistics().clients == 1; }));
  EXPECT_EQ(mount.Statistics().host_buffers, 1u);
}

TEST(Hostile, RingsOfOtherSizesAreRefused) {
  ServedMount mount;
  RawClient client(mount);
  {
    const RawLink ring(mount, kName + ".r0", 100);
    EXPECT_EQ(client.Ask(AttachRequest{ring.name}), EINVAL);
    std::filesystem::remove(ring.link);
  }
  const RawLink ring(mount, kName + ".r9", RingBytes(8));
  EXPECT_EQ(client.Ask(AttachRequest{ring.name}), EINVAL) << "io_depth exceeds its entries";
  EXPECT_EQ(mount.Statistics().rings, 0u);
}

TEST_F(HostileTruncation, RingsAreLimitedInAll) {
  ServedMount mount;
  RawClient client(mount);
  const RawLink large(mount, kName + ".r0", RingBytes(RingMemory::kMaxEntries - 8));
  EXPECT_EQ(client.Ask(AttachRequest{large.name}), 0);
  const std::string other = std::string(32, 'a');
  for (const auto& [ring, error] : {std::pair(other + ".r0", 0), {other + ".w0", ENOSPC}}) {
    std::filesystem::create_symlink("/dev/shm/" + large.file, mount.IovFolder() + "/" + ring);
    ASSERT_EQ(ftruncate(large.fd.get(), static_cast<off_t>(RingBytes(8))), 0);
    EXPECT_EQ(client.Ask(AttachRequest{ring}), error);
  }
  ExpectServes(mount);
}

TEST(Hostile, RingWithNonsenseIsClosed) {
  ServedMount mount;
  RawClient client(mount);
  const RawLink link(mount, kName + ".r0", RingBytes(8));
  ASSERT_EQ(client.Ask(AttachRequest{link.name}), 0);
  const RingMemory ring(link.memory, 8);
  ring.sqe_head() = INT_MAX;
  EXPECT_TRUE(Eventually([&] { return mount.Statistics().broken_rings == 1; }));
  EXPECT_EQ(mount.Statistics().rings, 0u);
  ExpectServes(mount);
}

TEST_F(HostileTruncation, RingThatIsTruncatedIsClosed) {
  ServedMount mount;
  RawClient client(mount);
  const RawLink link(mount, kName + ".r0", RingBytes(8));
  ASSERT_EQ(client.Ask(AttachRequest{link.name}), 0);
  ASSERT_EQ(ftruncate(link.fd.get(), 0), 0);
  EXPECT_TRUE(Eventually([&] { return mount.Statistics().broken_rings == 1; }));
  ExpectServes(mount);
}

TEST(Hostile, RequestsInARingAreChecked) {
  ServedMount mount;
  mount.WriteFile("file", "text");
  RawClient client(mount);
  const RawLink link(mount, kName + ".r0", RingBytes(8));
  ASSERT_EQ(client.Ask(AttachRequest{link.name}), 0);
  hf3fs_iov iov{};
  ASSERT_EQ(hf3fs_iovcreate(&iov, mount.path(), 4096, 0, -1), 0);
  struct stat status {};
  ASSERT_EQ(stat(mount.File("file").c_str(), &status), 0);
  ASSERT_EQ(client.Ask(OpenFileRequest{.inode = status.st_ino, .path = "file", .reads = true}), 0);

  const RingMemory ring(link.memory, 8);
  IoArgs good{.file = status.st_ino, .bytes = 4};
  std::memcpy(good.buffer.data(), iov.id, 16);
  std::vector<std::pair<IoArgs, int64_t>> requests{{good, 4}};
  const auto add = [&](int64_t result, const auto& change) {
    IoArgs args = good;
    change(args);
    requests.emplace_back(args, result);
  };
  add(-EINVAL, [](IoArgs& args) { args.buffer[0] ^= 1; });
  add(-EINVAL, [](IoArgs& args) { args.bytes = 0; });
  add(-EINVAL, [](IoArgs& args) { args.bytes = 4097; });
  add(-EINVAL, [](IoArgs& args) { args.buffer_offset = 4093; });
  add(-EINVAL, [](IoArgs& args) { args.buffer_offset = UINT64_MAX; });
  add(-EINVAL, [](IoArgs& args) { args.file_offset = UINT64_MAX; });
  add(-EACCES, [](IoArgs& args) { args.file = 1; });
  // Registered by another client: this process.
  const OpenedHere other(mount.File("other"), O_RDWR | O_CREAT);
  ASSERT_LE(hf3fs_reg_fd(other.fd, 0), 0);
  ASSERT_EQ(fstat(other.fd, &status), 0);
  ASSERT_EQ(mount.Statistics().files, 2u);
  add(-EACCES, [&](IoArgs& args) { args.file = status.st_ino; });
  for (const auto& [args, result] : requests) {
    const int place = ring.sqe_head().load();
    const int completion = ring.cqe_head().load();
    ring.StoreArgs(3, args);
    ring.StoreSqe(place, {.index = 3, .userdata = 77});
    ring.sqe_head() = ring.Next(place);
    ASSERT_TRUE(Eventually([&] { return ring.cqe_head().load() != completion; }));
    EXPECT_EQ(ring.LoadCqe(completion).result, result);
    EXPECT_EQ(ring.LoadCqe(completion).userdata, 77u);
    ring.cqe_tail() = ring.Next(completion);
  }
  hf3fs_dereg_fd(other.fd);
  hf3fs_iovdestroy(&iov);
}

TEST_F(HostileTruncation, SubmitSemaphoreWithNonsenseOnlyCostsTime) {
  ServedMount mount;
  std::string target;
  ASSERT_EQ(ReadLink(SubmitLinkOf(mount.path(), 0), target), 0);
  const host::FileDescriptor file(open(target.c_str(), O_RDWR | O_CLOEXEC));
  void* const memory = mmap(nullptr, sizeof(sem_t), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memset(memory, 0x7f, sizeof(sem_t));
  ExpectServes(mount);
  std::memset(memory, 0xff, sizeof(sem_t));
  ExpectServes(mount);
  std::memset(memory, 0, sizeof(sem_t));
  munmap(memory, sizeof(sem_t));
  ASSERT_EQ(ftruncate(file.get(), 0), 0);
  EXPECT_TRUE(Eventually([&] { return mount.Statistics().clients == 0; }));
}

TEST(Hostile, ConnectionsThatTakeAllDescriptorsOnlyCostTime) {
  ServedMount mount;
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlim_t before = limit.rlim_cur;
  {
    // Room for both ends of the next connection, and for nothing more.
    const host::FileDescriptor next(open("/dev/null", O_RDONLY | O_CLOEXEC)), last = next.Duplicate();
    limit.rlim_cur = static_cast<rlim_t>(last.get()) + 1;
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  const RawClient client(mount);
  EXPECT_TRUE(Eventually([&] { return mount.Statistics().clients == 1; }));
  limit.rlim_cur = before;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  ExpectServes(mount);
}

TEST(Hostile, ClientThatReadsNoRepliesIsDropped) {
  ServedMount mount;
  RawClient client(mount);
  const std::vector<uint8_t> request = ControlRequest{.sequence = 1, .body = DetachRequest{kName}}.Encode();
  const int flags = fcntl(client.socket.get(), F_GETFL);
  fcntl(client.socket.get(), F_SETFL, flags | O_NONBLOCK);
  EXPECT_TRUE(Eventually([&] {
    for (int i = 0; i < 1000; ++i) {
      if (const int error = SendPacket(client.socket.get(), request); error != 0 && error != EAGAIN)
        return true;
    }
    return false;
  }));
  ExpectServes(mount);
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
