#include <gtest/gtest.h>
#include <rdma/ib_user_verbs.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "uverbs/descriptors.hpp"
#include "uverbs/method.hpp"

/// Tests the commands in a process without hooks. This program links only the library of commands.
namespace softhca::uverbs {
namespace {

/// A network without peers.
class IdleNetwork : public Network {
 public:
  void OnTransition(QueuePair&) override {}
  bool Run(QueuePair&, uint64_t) override { return false; }
  bool Poll(uint64_t) override { return false; }
  uint64_t NextNs() const override { return UINT64_MAX; }
  bool Listens() const override { return false; }
  void Wait(uint64_t) override {}
};

struct LostEvents : Observer {
  void OnLostEvent() override { ++count; }
  int count = 0;
};

/// @param observer  set before the engine has a thread
std::vector<std::unique_ptr<Hca>> OneDevice(Observer& observer) {
  DeviceConfig config;
  config.name = "mlx5_0";
  config.ports.resize(1);
  std::vector<std::unique_ptr<Hca>> devices;
  devices.push_back(std::make_unique<Hca>(std::move(config)));
  devices.back()->SetObserver(&observer);
  return devices;
}

ib_uverbs_attr MakeAttribute(uint16_t id, uint16_t bytes, uint64_t data) {
  ib_uverbs_attr attribute{};
  attribute.attr_id = id;
  attribute.len = bytes;
  attribute.data = data;
  return attribute;
}

class Commands : public testing::Test {
 protected:
  /// Runs a method with these attributes, and stores the outputs in them.
  void Run(uint16_t object, uint16_t method, std::vector<ib_uverbs_attr>& attributes) {
    ib_uverbs_ioctl_hdr header{};
    const size_t bytes = attributes.size() * sizeof(ib_uverbs_attr);
    header.length = static_cast<uint16_t>(sizeof header + bytes);
    header.object_id = object;
    header.method_id = method;
    header.num_attrs = static_cast<uint16_t>(attributes.size());
    header.driver_id = RDMA_DRIVER_MLX5;
    std::vector<uint8_t> command(header.length);
    std::memcpy(command.data(), &header, sizeof header);
    std::memcpy(command.data() + sizeof header, attributes.data(), bytes);
    IoctlRequest request(reinterpret_cast<uint64_t>(command.data()));
    Call call(-1, context_, request);
    Dispatch(call);
    request.WriteBack();
    std::memcpy(attributes.data(), command.data() + sizeof header, bytes);
  }

  LostEvents lost_;
  Engine engine_{OneDevice(lost_), std::make_unique<IdleNetwork>()};
  Context context_{engine_, 0};
};

TEST_F(Commands, AllocatesPd) {
  ib_uverbs_alloc_pd input{};
  ib_uverbs_alloc_pd_resp response{};
  std::vector<ib_uverbs_attr> attributes{
      MakeAttribute(UVERBS_ATTR_WRITE_CMD, sizeof(uint32_t), IB_USER_VERBS_CMD_ALLOC_PD),
      MakeAttribute(UVERBS_ATTR_CORE_IN, sizeof input, reinterpret_cast<uint64_t>(&input)),
      MakeAttribute(UVERBS_ATTR_CORE_OUT, sizeof response, reinterpret_cast<uint64_t>(&response))};
  Run(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE, attributes);
  const auto lock = engine_.Pause();
  EXPECT_EQ(context_.Get(response.pd_handle, Kind::kPd).kind, Kind::kPd);
}

TEST_F(Commands, MarksDescriptorsOfEventsAsOurs) {
  std::vector<ib_uverbs_attr> attributes{MakeAttribute(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, 0, 0)};
  Run(UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC, attributes);
  const int descriptor = static_cast<int>(attributes[0].data_s64);
  EXPECT_TRUE(MayBeOurs(descriptor));
  EXPECT_TRUE(context_.HasPipe(Identify(descriptor)));
  CloseOwn(descriptor);
  EXPECT_FALSE(MayBeOurs(descriptor));
  EXPECT_EQ(Identify(descriptor), FileId{});
}

TEST_F(Commands, CountEventsThatThePipeDoesNotTake) {
  const auto lock = engine_.Pause();
  const auto pipe = context_.AddPipe(EventSort::kVerbs, sizeof(ib_uverbs_async_event_desc));
  const ib_uverbs_async_event_desc event{};
  while (pipe->Write(&event)) continue;
  EXPECT_EQ(lost_.count, 1);
  context_.SendAsync(0, 0);
  EXPECT_EQ(lost_.count, 2);
  CloseOwn(pipe->program_end());
}

}  // namespace
}  // namespace softhca::uverbs
