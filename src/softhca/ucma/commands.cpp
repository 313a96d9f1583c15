#include <rdma/rdma_user_cm.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <iterator>
#include <span>
#include <string>
#include <thread>

#include "ucma/device.hpp"
#include "uverbs/errors.hpp"
#include "uverbs/user_memory.hpp"

namespace softhca::ucma {
namespace {

using uverbs::CopyIn;
using uverbs::CopyOut;
using uverbs::Errno;

/// A command whose input has the required length.
struct Call {
  Device& device;
  File& file;
  std::span<const uint8_t> input;
  size_t room;  ///< bytes of the program's response buffer

  template <class Input>
  Input Get() const {
    Input value;
    std::memcpy(&value, input.data(), sizeof value);
    return value;
  }
  /// @param min_bytes  size of the response buffer of older programs
  template <class Output>
  void Respond(uint64_t address, const Output& resp, size_t min_bytes = sizeof(Output)) const {
    if (room < min_bytes) throw Errno(ENOSPC, "the response buffer is too small");
    CopyOut(address, &resp, std::min(room, sizeof resp));
  }
  Id& GetId(uint32_t number) const { return device.Get(file, number); }
};

void CreateId(const Call& call) {
  const auto cmd = call.Get<rdma_ucm_create_id>();
  if (cmd.ps != RDMA_PS_TCP && cmd.ps != RDMA_PS_UDP)
    throw Errno(EINVAL, "only the port spaces of TCP and UDP are supported");
  if (call.room < sizeof(rdma_ucm_create_id_resp)) throw Errno(ENOSPC, "the response buffer is too small");
  Id& id = call.device.MakeId(call.file, cmd.uid, static_cast<cm::PortSpace>(cmd.ps));
  call.Respond(cmd.response, rdma_ucm_create_id_resp{.id = id.number()});
}

void DestroyId(const Call& call) {
  const auto cmd = call.Get<rdma_ucm_destroy_id>();
  Id& id = call.GetId(cmd.id);
  call.Respond(cmd.response, rdma_ucm_destroy_id_resp{.events_reported = call.device.Destroy(id)});
}

void BindIp(const Call& call) {
  const auto cmd = call.Get<rdma_ucm_bind_ip>();
  call.GetId(cmd.id).Bind(ReadIpPort(&cmd.addr, sizeof cmd.addr));
}

void Bind(const Call& call) {
  const auto cmd = call.Get<rdma_ucm_bind>();
  call.GetId(cmd.id).Bind(ReadIpPort(&cmd.addr, std::min<size_t>(cmd.addr_size, sizeof cmd.addr)));
}

/// Reads the source address.
///
/// @return  nothing if the program gives none
std::optional<IpPort> ReadSource(const void* address, size_t bytes) {
  const auto* const any = static_cast<const sockaddr*>(address);
  if (bytes == 0 || any->sa_family == AF_UNSPEC) return {};
  return ReadIpPort(address, bytes);
}

void ResolveIp(const Call& call) {
  const auto cmd = call.Get<rdma_ucm_resolve_ip>();
  call.GetId(cmd.id).ResolveAddress(ReadSource(&cmd.src_addr, sizeof cmd.src_addr),
                                    ReadIpPort(&cmd.dst_addr, sizeof cmd.dst_addr));
}

void ResolveAddress(const Call& call) {
  const auto cmd = call.Get<rdma_ucm_resolve_addr>();
  call.GetId(cmd.id).ResolveAddress(
      ReadSource(&cmd.src_addr, std::min<size_t>(cmd.src_size, sizeof cmd.src_addr)),
      ReadIpPort(&cmd.dst_addr, std::min<size_t>(cmd.dst_size, sizeof cmd.dst_addr)));
}

/// Resolves the route. Waits a moment for a program of this host to listen: both may have just started.
void ResolveRoute(const Call& call) {
  using std::chrono::milliseconds, std::chrono::steady_clock;
  constexpr milliseconds kLongest{200}, kStep{2};
  const auto cmd = call.Get<rdma_ucm_resolve_route>();
  const auto deadline = steady_clock::now() + std::min(milliseconds(cmd.timeout_ms), kLongest);
  for (;; std::this_thread::sleep_for(kStep)) {
    const auto lock = call.device.engine().Pause();
    Id& id = call.GetId(cmd.id);
    if (id.KnowsPeer() || steady_clock::now() >= deadline) return id.ResolveRoute();
  }
}

void QueryRoute(const Call& call) {
  const auto cmd = call.Get<rdma_ucm_query>();
  call.Respond(cmd.response, call.GetId(cmd.id).Describe(), offsetof(rdma_ucm_query_route_resp, ibdev_index));
}

void Listen(const Call& call) {
  const auto cmd = call.Get<rdma_ucm_listen>();
  call.GetId(cmd.id).Listen(cmd.backlog);
}

void Connect(const Call& call) {
  const auto cmd = call.Get<rdma_ucm_connect>();
  if (cmd.conn_param.valid == 0) throw Errno(EINVAL, "the connection parameters are missing");
  call.GetId(cmd.id).Connect(cmd.conn_param);
}

void Accept(const Call& call) {
  const auto cmd = call.Get<rdma_ucm_accept>();
  call.GetId(cmd.id).Accept(cmd.conn_param, cmd.uid);
}

void Reject(const Call& call) {
  const auto cmd = call.Get<rdma_ucm_reject>();
  call.GetId(cmd.id).Reject(cmd);
}

void Disconnect(const Call& call) { call.GetId(call.Get<rdma_ucm_disconnect>().id).Disconnect(); }

void InitQpAttributes(const Call& call) {
  const auto cmd = call.Get<rdma_ucm_init_qp_attr>();
  call.Respond(cmd.response, call.GetId(cmd.id).QueuePairAttributes(cmd.qp_state));
}

void SetOption(const Call& call) {
  const auto cmd = call.Get<rdma_ucm_set_option>();
  Id& id = call.GetId(cmd.id);
  const auto value = [&]<class Value>(Value option) {
    if (cmd.optlen != sizeof option) throw Errno(EINVAL, "the option has a different size");
    CopyIn(&option, cmd.optval, sizeof option);
    return option;
  };
  if (cmd.level == RDMA_OPTION_ID && cmd.optname == RDMA_OPTION_ID_TOS)
    return id.set_traffic_class(value(uint8_t{}));
  if (cmd.level == RDMA_OPTION_ID && cmd.optname == RDMA_OPTION_ID_REUSEADDR)
    return id.set_reuses_address(value(int{}) != 0);
  if (cmd.level == RDMA_OPTION_ID && cmd.optname == RDMA_OPTION_ID_ACK_TIMEOUT)
    return id.set_ack_timeout(value(uint8_t{}) & 0x1f);
  if (cmd.level == RDMA_OPTION_ID && cmd.optname == RDMA_OPTION_ID_AFONLY)
    return id.set_only_own_family(value(int{}) != 0);
  throw Errno(ENOSYS, "the option is not supported");
}

void Notify(const Call& call) {
  constexpr uint32_t kCommunicationEstablished = 4;  // IBV_EVENT_COMM_EST
  const auto cmd = call.Get<rdma_ucm_notify>();
  if (cmd.event != kCommunicationEstablished) throw Errno(EINVAL, "only IBV_EVENT_COMM_EST can be notified");
  call.GetId(cmd.id).NoteEstablished();
}

void MigrateId(const Call& call) {
  const auto cmd = call.Get<rdma_ucm_migrate_id>();
  Id& id = call.device.Find(cmd.id);
  if (uverbs::Identify(static_cast<int>(cmd.fd)) != id.file().id())
    throw Errno(EINVAL, "the id does not belong to that event channel");
  call.device.Migrate(id, call.file);
  call.Respond(cmd.response, rdma_ucm_migrate_resp{.events_reported = id.events_reported()});
}

void Join(const Call& call, uint64_t response, Id& id, const IpPort& group, uint64_t uid) {
  if (call.room < sizeof(rdma_ucm_create_id_resp)) throw Errno(ENOSPC, "the response buffer is too small");
  call.Respond(response, rdma_ucm_create_id_resp{.id = call.device.Join(id, group, uid)});
}

void JoinIp(const Call& call) {
  const auto cmd = call.Get<rdma_ucm_join_ip_mcast>();
  Join(call, cmd.response, call.GetId(cmd.id), ReadIpPort(&cmd.addr, sizeof cmd.addr), cmd.uid);
}

/// Joins a group. An id that only sends has the same membership as one that receives: the program attaches
/// its queue pair, or does not.
void JoinGroup(const Call& call) {
  const auto cmd = call.Get<rdma_ucm_join_mcast>();
  if (cmd.join_flags >= RDMA_MC_JOIN_FLAG_RESERVED) throw Errno(EINVAL, "the kind of membership is unknown");
  const IpPort group = ReadIpPort(&cmd.addr, std::min<size_t>(cmd.addr_size, sizeof cmd.addr));
  Join(call, cmd.response, call.GetId(cmd.id), group, cmd.uid);
}

void Leave(const Call& call) {
  const auto cmd = call.Get<rdma_ucm_destroy_id>();
  call.Respond(cmd.response,
               rdma_ucm_destroy_id_resp{.events_reported = call.device.Leave(call.file, cmd.id)});
}

/// Takes the oldest event of the file; waits for one if necessary.
void GetEvent(const Call& call) {
  const auto cmd = call.Get<rdma_ucm_get_event>();
  constexpr size_t kMinBytes = offsetof(rdma_ucm_event_resp, reserved);
  if (call.room < kMinBytes) throw Errno(ENOSPC, "the event buffer is too small");
  for (;;) {
    const uint32_t id = call.file.Wait();
    const auto lock = call.device.engine().Pause();
    const auto event = call.device.TakeEvent(call.file, id);
    if (event) return call.Respond(cmd.response, event->response, kMinBytes);
  }
}

struct Command {
  uint32_t number;
  const char* name;
  void (*run)(const Call& call);
  size_t bytes;        ///< minimum size of the input
  bool waits = false;  ///< whether the command takes the engine's lock itself
};

constexpr Command kCommands[] = {
    {RDMA_USER_CM_CMD_CREATE_ID, "CREATE_ID", CreateId, sizeof(rdma_ucm_create_id)},
    {RDMA_USER_CM_CMD_DESTROY_ID, "DESTROY_ID", DestroyId, sizeof(rdma_ucm_destroy_id)},
    {RDMA_USER_CM_CMD_BIND_IP, "BIND_IP", BindIp, sizeof(rdma_ucm_bind_ip)},
    {RDMA_USER_CM_CMD_BIND, "BIND", Bind, sizeof(rdma_ucm_bind)},
    {RDMA_USER_CM_CMD_RESOLVE_IP, "RESOLVE_IP", ResolveIp, sizeof(rdma_ucm_resolve_ip)},
    {RDMA_USER_CM_CMD_RESOLVE_ADDR, "RESOLVE_ADDR", ResolveAddress, sizeof(rdma_ucm_resolve_addr)},
    {RDMA_USER_CM_CMD_RESOLVE_ROUTE, "RESOLVE_ROUTE", ResolveRoute, sizeof(rdma_ucm_resolve_route), true},
    {RDMA_USER_CM_CMD_QUERY_ROUTE, "QUERY_ROUTE", QueryRoute, offsetof(rdma_ucm_query, option)},
    {RDMA_USER_CM_CMD_LISTEN, "LISTEN", Listen, sizeof(rdma_ucm_listen)},
    {RDMA_USER_CM_CMD_CONNECT, "CONNECT", Connect, offsetof(rdma_ucm_connect, ece)},
    {RDMA_USER_CM_CMD_ACCEPT, "ACCEPT", Accept, offsetof(rdma_ucm_accept, ece)},
    {RDMA_USER_CM_CMD_REJECT, "REJECT", Reject, sizeof(rdma_ucm_reject)},
    {RDMA_USER_CM_CMD_DISCONNECT, "DISCONNECT", Disconnect, sizeof(rdma_ucm_disconnect)},
    {RDMA_USER_CM_CMD_INIT_QP_ATTR, "INIT_QP_ATTR", InitQpAttributes, sizeof(rdma_ucm_init_qp_attr)},
    {RDMA_USER_CM_CMD_GET_EVENT, "GET_EVENT", GetEvent, sizeof(rdma_ucm_get_event), true},
    {RDMA_USER_CM_CMD_SET_OPTION, "SET_OPTION", SetOption, sizeof(rdma_ucm_set_option)},
    {RDMA_USER_CM_CMD_NOTIFY, "NOTIFY", Notify, sizeof(rdma_ucm_notify)},
    {RDMA_USER_CM_CMD_MIGRATE_ID, "MIGRATE_ID", MigrateId, sizeof(rdma_ucm_migrate_id)},
    {RDMA_USER_CM_CMD_JOIN_IP_MCAST, "JOIN_IP_MCAST", JoinIp, sizeof(rdma_ucm_join_ip_mcast)},
    {RDMA_USER_CM_CMD_JOIN_MCAST, "JOIN_MCAST", JoinGroup, sizeof(rdma_ucm_join_mcast)},
    {RDMA_USER_CM_CMD_LEAVE_MCAST, "LEAVE_MCAST", Leave, sizeof(rdma_ucm_destroy_id)},
};

/// Header and input; no command is longer.
using Input = std::array<uint8_t, 512>;

rdma_ucm_cmd_hdr ReadHeader(uint64_t address, size_t bytes) {
  rdma_ucm_cmd_hdr header;
  if (bytes < sizeof header) throw Errno(EINVAL, "the command has no header");
  CopyIn(&header, address, sizeof header);
  return header;
}

const Command* Find(uint32_t number) {
  const auto* const found = std::find_if(std::begin(kCommands), std::end(kCommands),
                                         [&](const Command& command) { return command.number == number; });
  return found == std::end(kCommands) ? nullptr : found;
}

}  // namespace

void RunCommand(Device& device, File& file, uint64_t address, size_t bytes) {
  const rdma_ucm_cmd_hdr header = ReadHeader(address, bytes);
  if (header.in + sizeof header > bytes) throw Errno(EINVAL, "the command is truncated");
  Input input{};
  CopyIn(input.data(), address + sizeof header, std::min<size_t>(header.in, input.size()));
  const Call call{device, file, input, header.out};
  const Command* const command = Find(header.cmd);
  if (command == nullptr) throw Errno(ENOSYS, "the command is not supported");
  if (header.in < command->bytes) throw Errno(EINVAL, "the command is truncated");
  if (command->waits) return command->run(call);
  const auto lock = device.engine().Pause();
  command->run(call);
}

const char* CommandName(uint64_t address, size_t bytes) {
  try {
    if (const Command* const command = Find(ReadHeader(address, bytes).cmd)) return command->name;
  } catch (const Errno&) {
    // RunCommand() has reported that it is unreadable
  }
  return "command";
}

}  // namespace softhca::ucma
