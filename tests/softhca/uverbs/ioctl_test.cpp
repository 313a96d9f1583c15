#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

/// Tests the kernel's interface without rdma-core: malformed commands are refused and do no harm.
namespace {

/// A command in rdma-core's layout.
class Command {
 public:
  Command(uint16_t object, uint16_t method) : object_(object), method_(method) {}

  Command& Value(uint16_t id, uint64_t value, uint16_t bytes = 8) { return Add(id, bytes, value); }
  Command& Handle(uint16_t id, uint64_t handle = 0) { return Add(id, 0, handle); }
  template <class T>
  Command& Pointer(uint16_t id, T& memory) {
    return Add(id, sizeof memory, reinterpret_cast<uint64_t>(&memory));
  }
  /// Adds an input. A short one is stored in the attribute itself.
  template <class T>
  Command& Input(uint16_t id, const T& input) {
    uint64_t data = reinterpret_cast<uint64_t>(&input);
    if (sizeof input <= sizeof data) std::memcpy(&data, &input, sizeof input);
    return Add(id, sizeof input, data);
  }
  Command& Add(uint16_t id, uint16_t bytes, uint64_t data, uint16_t flags = UVERBS_ATTR_F_MANDATORY) {
    ib_uverbs_attr attribute{};
    attribute.attr_id = id;
    attribute.len = bytes;
    attribute.flags = flags;
    attribute.data = data;
    attributes_.push_back(attribute);
    return *this;
  }
  Command& Length(uint16_t extra) {
    extra_length_ = extra;
    return *this;
  }

  /// @return  0, or the errno
  int Run(int fd) {
    std::vector<uint8_t> bytes(sizeof(ib_uverbs_ioctl_hdr) + attributes_.size() * sizeof(ib_uverbs_attr));
    auto* const header = reinterpret_cast<ib_uverbs_ioctl_hdr*>(bytes.data());
    header->length = static_cast<uint16_t>(bytes.size() + extra_length_);
    header->object_id = object_;
    header->method_id = method_;
    header->num_attrs = static_cast<uint16_t>(attributes_.size());
    header->driver_id = RDMA_DRIVER_MLX5;
    std::copy(attributes_.begin(), attributes_.end(), header->attrs);
    if (ioctl(fd, RDMA_VERBS_IOCTL, bytes.data()) != 0) return errno;
    std::copy_n(header->attrs, attributes_.size(), attributes_.begin());
    return 0;
  }
  /// Returns the handle in an output attribute.
  uint32_t Result(size_t index) const { return static_cast<uint32_t>(attributes_.at(index).data); }

 private:
  uint16_t object_, method_;
  std::vector<ib_uverbs_attr> attributes_;
  uint16_t extra_length_ = 0;
};

class Ioctl : public testing::Test {
 protected:
  Ioctl() { EXPECT_GE(fd, 0); }
  ~Ioctl() override { close(fd); }

  static Command Write(uint32_t id) {
    Command command(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
    command.Value(UVERBS_ATTR_WRITE_CMD, id);
    return command;
  }
  int GetContext(uint32_t flags) const {
    mlx5_ib_alloc_ucontext_req_v2 request{};
    request.flags = flags;
    request.max_cqe_version = 1;
    request.lib_caps = MLX5_LIB_CAP_4K_UAR | MLX5_LIB_CAP_DYN_UAR;
    mlx5_ib_alloc_ucontext_resp answer{};
    const int error = Command(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT)
                          .Input(UVERBS_ATTR_UHW_IN, request)
                          .Pointer(UVERBS_ATTR_UHW_OUT, answer)
                          .Run(fd);
    EXPECT_EQ(answer.cqe_version, error == 0 ? 1 : 0);
    return error;
  }
  uint32_t AllocPd() const {
    const ib_uverbs_alloc_pd request{};
    ib_uverbs_alloc_pd_resp answer{};
    EXPECT_EQ(Write(IB_USER_VERBS_CMD_ALLOC_PD)
                  .Input(UVERBS_ATTR_CORE_IN, request)
                  .Pointer(UVERBS_ATTR_CORE_OUT, answer)
                  .Run(fd),
              0);
    return answer.pd_handle;
  }
  int DeallocPd(uint32_t handle) const {
    return Command(UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY)
        .Handle(UVERBS_ATTR_DESTROY_PD_HANDLE, handle)
        .Run(fd);
  }
  int RegisterMr(uint32_t pd, const void* memory, uint64_t bytes, uint32_t access) const {
    ib_uverbs_reg_mr request{};
    request.start = reinterpret_cast<uint64_t>(memory);
    request.hca_va = request.start;
    request.length = bytes;
    request.pd_handle = pd;
    request.access_flags = access;
    ib_uverbs_reg_mr_resp answer{};
    return Write(IB_USER_VERBS_CMD_REG_MR)
        .Input(UVERBS_ATTR_CORE_IN, request)
        .Pointer(UVERBS_ATTR_CORE_OUT, answer)
        .Run(fd);
  }
  /// @param answer  address for the number of entries
  int CreateCq(uint64_t answer, std::optional<uint32_t> channel) const {
    alignas(64) static uint8_t ring[64 * 2];
    alignas(64) static uint8_t record[8];
    uint64_t offset = 0;
    uint32_t length = 0, page = 0;
    EXPECT_EQ(Command(MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC)
                  .Handle(MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE)
                  .Value(MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, 0)
                  .Pointer(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, offset)
                  .Pointer(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, length)
                  .Pointer(MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, page)
                  .Run(fd),
              0);
    mlx5_ib_create_cq driver{};
    driver.buf_addr = reinterpret_cast<uint64_t>(ring);
    driver.db_addr = reinterpret_cast<uint64_t>(record);
    driver.cqe_size = 64;
    driver.flags = MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX;
    driver.uar_page_index = static_cast<uint16_t>(page);
    Command command(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE);
    if (channel) command.Handle(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, *channel);
    return command.Handle(UVERBS_ATTR_CREATE_CQ_HANDLE)
        .Value(UVERBS_ATTR_CREATE_CQ_CQE, 1, 4)
        .Value(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, 0)
        .Value(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 0, 4)
        .Add(UVERBS_ATTR_CREATE_CQ_RESP_CQE, 4, answer)
        .Input(UVERBS_ATTR_UHW_IN, driver)
        .Run(fd);
  }
  static constexpr uint16_t kUnknown = 77;

  int fd = open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC);
};

TEST_F(Ioctl, DeviceFileIsACharacterDevice) {
  struct stat status {};
  ASSERT_EQ(fstat(fd, &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
  EXPECT_EQ(major(status.st_rdev), 231u);
  EXPECT_EQ(open("/dev/infiniband/uverbs9", O_RDWR), -1);
  EXPECT_EQ(errno, ENOENT);
}

TEST_F(Ioctl, RefusesFirmwareCommandsOfAContextWithoutDevx) {
  uint32_t in[4]{}, out[4]{};
  const auto command = [&] {
    return Command(MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER)
        .Input(MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, in)
        .Pointer(MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, out)
        .Run(fd);
  };
  ASSERT_EQ(GetContext(0), 0);
  EXPECT_EQ(command(), EINVAL);
  ASSERT_EQ(GetContext(MLX5_IB_ALLOC_UCTX_DEVX), 0);
  EXPECT_EQ(command(), EREMOTEIO);  // command 0 does not exist
}

TEST_F(Ioctl, RefusesUnknownObjectsMethodsAndAttributes) {
  EXPECT_EQ(Command(kUnknown, 0).Run(fd), EPROTONOSUPPORT);
  EXPECT_EQ(Command(UVERBS_OBJECT_PD, kUnknown).Run(fd), EPROTONOSUPPORT);
  EXPECT_EQ(Write(kUnknown).Run(fd), EOPNOTSUPP);
  EXPECT_EQ(Write(IB_USER_VERBS_CMD_QUERY_DEVICE).Run(fd), ENOSPC);  // rdma-core's probe
  EXPECT_EQ(Write(IB_USER_VERBS_CMD_QUERY_DEVICE).Handle(kUnknown).Run(fd), EPROTONOSUPPORT);
  EXPECT_EQ(Write(IB_USER_VERBS_CMD_QUERY_DEVICE).Add(kUnknown, 0, 0, 0).Run(fd),
            ENOSPC);  // optional: ignored
}

TEST_F(Ioctl, RefusesMalformedCommands) {
  EXPECT_EQ(Write(0).Length(16).Run(fd), EINVAL);
  EXPECT_EQ(ioctl(fd, RDMA_VERBS_IOCTL, nullptr), -1);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(Command(UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY).Run(fd), EINVAL);
  EXPECT_EQ(
      Command(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE).Value(UVERBS_ATTR_WRITE_CMD, 1, 2).Run(fd),
      EINVAL);
  ib_uverbs_query_port_resp_ex answer{};
  EXPECT_EQ(Command(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT)
                .Value(UVERBS_ATTR_QUERY_PORT_PORT_NUM, 3)
                .Pointer(UVERBS_ATTR_QUERY_PORT_RESP, answer)
                .Run(fd),
            EINVAL);
  EXPECT_EQ(Command(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT)
                .Value(UVERBS_ATTR_QUERY_PORT_PORT_NUM, 1)
                .Add(UVERBS_ATTR_QUERY_PORT_RESP, sizeof answer, 16)
                .Run(fd),
            EFAULT);
  EXPECT_EQ(Command(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT)
                .Value(UVERBS_ATTR_QUERY_PORT_PORT_NUM, 1)
                .Pointer(UVERBS_ATTR_QUERY_PORT_RESP, answer)
                .Run(fd),
            0);
  EXPECT_EQ(answer.legacy_resp.state, IBV_PORT_ACTIVE);
}

TEST_F(Ioctl, SurvivesRandomCommands) {
  std::mt19937 random(20240521);
  const auto below = [&](uint32_t bound) { return static_cast<uint16_t>(random() % bound); };
  // Small numbers are plausible handles, lengths and counts. Pages near 0 and kernel addresses are never
  // mapped.
  const auto value = [&]() -> uint64_t { return random() % 2 != 0 ? below(300) : uint64_t{random()} << 40; };
  for (int i = 0; i < 50'000; ++i) {
    const bool driver = random() % 2 != 0;
    const uint16_t space = UVERBS_ATTR_UHW_IN;  // the first of the numbers of drivers
    const uint16_t object = driver ? space + below(10) : below(17);
    Command command(object, driver || random() % 4 == 0 ? space + below(5) : below(8));
    for (uint16_t attribute = 0; attribute < 16; ++attribute) {
      if (random() % 4 == 0) continue;
      command.Add(random() % 8 == 0 || driver ? space + attribute : attribute,
                  below(4) != 0 ? below(9) : below(300), value(), random() % 2);
    }
    command.Run(fd);
  }
  const uint32_t pd = AllocPd();
  EXPECT_EQ(DeallocPd(pd), 0);
}

TEST_F(Ioctl, ClosesAnObjectWhoseResponseFailedWithTheContext) {
  uint32_t entries = 0;
  EXPECT_EQ(CreateCq(16, {}), EFAULT);
  EXPECT_EQ(CreateCq(reinterpret_cast<uint64_t>(&entries), {}), 0);
  EXPECT_EQ(entries, 1u);
}

TEST_F(Ioctl, ChecksHandles) {
  const uint32_t pd = AllocPd();
  EXPECT_EQ(DeallocPd(pd + 1), ENOENT);
  EXPECT_EQ(
      Command(UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY).Handle(UVERBS_ATTR_DESTROY_MR_HANDLE, pd).Run(fd),
      EINVAL);
  EXPECT_EQ(DeallocPd(pd), 0);
  EXPECT_EQ(DeallocPd(pd), ENOENT);
}

TEST_F(Ioctl, ChecksThatMemoryIsMappedForTheAccess) {
  constexpr size_t kBytes = 2 * 4096;
  constexpr uint32_t kWrite = IBV_ACCESS_LOCAL_WRITE;
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const uint32_t pd = AllocPd();
  EXPECT_EQ(RegisterMr(pd, memory, kBytes, kWrite), 0);
  EXPECT_EQ(RegisterMr(pd, memory, 0, kWrite), EINVAL);
  EXPECT_EQ(RegisterMr(pd, memory, UINT64_MAX, kWrite), EINVAL);
  EXPECT_EQ(RegisterMr(pd, memory, kBytes, IBV_ACCESS_REMOTE_WRITE), EINVAL);
  EXPECT_EQ(RegisterMr(pd + 100, memory, kBytes, kWrite), ENOENT);
  ASSERT_EQ(mprotect(memory, kBytes, PROT_READ), 0);
  EXPECT_EQ(RegisterMr(pd, memory, kBytes, kWrite), EFAULT);
  EXPECT_EQ(RegisterMr(pd, memory, kBytes, IBV_ACCESS_REMOTE_READ), 0);
  ASSERT_EQ(mprotect(memory, kBytes, PROT_NONE), 0);
  EXPECT_EQ(RegisterMr(pd, memory, kBytes, 0), EFAULT);
  ASSERT_EQ(munmap(memory, kBytes), 0);
  EXPECT_EQ(RegisterMr(pd, memory, kBytes, 0), EFAULT);
  EXPECT_EQ(DeallocPd(pd), EBUSY);
}

TEST_F(Ioctl, CloseFreesTheRemainingObjects) {
  const auto mappings = [] {
    std::ifstream maps("/proc/self/maps");
    int count = 0;
    for (std::string line; std::getline(maps, line);) count += line.find("memfd:softhca") != line.npos;
    return count;
  };
  constexpr int kPages = 100;
  const auto before = mappings();
  for (int i = 0; i < kPages; ++i) {
    uint64_t offset = 0;
    uint32_t length = 0, page = 0;
    ASSERT_EQ(Command(MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC)
                  .Handle(MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE)
                  .Value(MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, i % 2)
                  .Pointer(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, offset)
                  .Pointer(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, length)
                  .Pointer(MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, page)
                  .Run(fd),
              0);
    EXPECT_EQ(length, 4096u);
  }
  // Neighbouring pages may share a line, but not all of them: their order in memory differs from the file's.
  EXPECT_GT(mappings(), before);
  ASSERT_EQ(close(fd), 0);
  EXPECT_LE(mappings(), before);
  fd = -1;
}

TEST_F(Ioctl, DeviceStaysOpenUntilItsLastDescriptorIsClosed) {
  const uint32_t pd = AllocPd();
  const int second = fcntl(fd, F_DUPFD, 500);  // a number that no other file has had
  ASSERT_GE(second, 500);
  struct stat status {};
  ASSERT_EQ(fstat(second, &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
  ASSERT_EQ(close(fd), 0);
  fd = second;
  EXPECT_EQ(DeallocPd(pd), 0);
}

TEST_F(Ioctl, VforkChildClosesNothingOfTheParent) {
  const uint32_t pd = AllocPd();
  const pid_t child = vfork();
  if (child == 0) {
    close(fd);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(DeallocPd(pd), 0);
}

TEST_F(Ioctl, ForkedChildOpensItsOwnDevices) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "under ThreadSanitizer a forked child cannot start threads";
#endif
  const uint32_t pd = AllocPd();
  const pid_t child = fork();
  if (child == 0) {
    const int own = open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC);
    fd = own;
    const bool good = own >= 0 && GetContext(MLX5_IB_ALLOC_UCTX_DEVX) == 0 && AllocPd() == 1;
    _exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(DeallocPd(pd), 0);
}

TEST_F(Ioctl, RefusesAnEventFileAsACompletionChannel) {
  Command events(UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC);
  ASSERT_EQ(events.Handle(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE).Run(fd), 0);
  uint32_t entries = 0;
  EXPECT_EQ(CreateCq(reinterpret_cast<uint64_t>(&entries), events.Result(0)), EINVAL);
  EXPECT_EQ(close(static_cast<int>(events.Result(0))), 0);
}

TEST_F(Ioctl, EventFileIsReadableOnlyWithEvents) {
  Command command(UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC);
  ASSERT_EQ(command.Handle(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE).Run(fd), 0);
  const auto events = static_cast<int>(command.Result(0));
  ASSERT_EQ(fcntl(events, F_SETFL, O_NONBLOCK), 0);
  ib_uverbs_async_event_desc event;
  EXPECT_EQ(read(events, &event, sizeof event), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(close(events), 0);
}

}  // namespace
