#include <infiniband/verbs.h>

#include <algorithm>

#include "core/limits.hpp"
#include "uverbs/devx.hpp"
#include "uverbs/method.hpp"
#include "uverbs/user_memory.hpp"

namespace softhca::uverbs {
namespace {

using mlx5::Be32;
using mlx5::CommandStatus;

void CheckDevx(Call& call) {
  if (!call.context().devx) throw Errno(EINVAL, "the context was opened without DEVX");
}

std::vector<Be32> ReadMailbox(const IoctlRequest& request, uint16_t id) {
  const std::vector<uint8_t> bytes = request.GetBytes(id);
  if (bytes.size() < mlx5::kCommandHeaderBytes || bytes.size() % sizeof(Be32) != 0) {
    throw Errno(EINVAL, "a command needs at least 16 bytes, a multiple of 4");
  }
  std::vector<Be32> words(bytes.size() / sizeof(Be32));
  std::memcpy(words.data(), bytes.data(), bytes.size());
  return words;
}

/// Finds the command and checks the mailbox lengths, as firmware does.
template <class Run>
Run* FindCommand(std::span<const DevxCommand<Run>> commands, const Mailboxes& mail) {
  const auto opcode = mail.Get(mlx5::command_in::kOpcode);
  const auto found = std::find_if(commands.begin(), commands.end(),
                                  [&](const auto& command) { return command.opcode == opcode; });
  if (found == commands.end()) {
    throw CommandError(
        CommandStatus::kBadOperation,
        "firmware command " + std::to_string(static_cast<uint32_t>(opcode)) + " is not implemented");
  }
  if (mail.in.size_bytes() < found->in_bytes) {
    throw CommandError(CommandStatus::kBadInputLength, "the input mailbox is too short");
  }
  if (mail.out.size_bytes() < found->out_bytes) {
    throw CommandError(CommandStatus::kBadOutputLength, "the output mailbox is too short");
  }
  return found->run;
}

/// Calls `body` with the mailboxes and writes the response. A failure has a status, and a syndrome made of
/// the command and the status, where firmware has a number of its own.
template <class Body>
void RunCommand(Call& call, uint16_t in_id, uint16_t out_id, Body body) {
  IoctlRequest& request = call.request();
  const std::vector<Be32> in = ReadMailbox(request, in_id);
  std::vector<Be32> out(request.Length(out_id) / sizeof(Be32));
  if (out.size() * sizeof(Be32) < mlx5::kCommandOutBytes)
    throw Errno(EINVAL, "a response needs at least 16 bytes");
  const auto respond = [&] {
    request.SetBytes(out_id, {reinterpret_cast<const uint8_t*>(out.data()), out.size() * 4});
  };
  CheckDevx(call);
  try {
    body(Mailboxes{call.context(), in, out});
  } catch (const CommandError& error) {
    const std::span<Be32> words(out);
    const auto opcode = mlx5::GetField(std::span<const Be32>(in), mlx5::command_in::kOpcode);
    std::fill(words.begin(), words.end(), Be32{});
    mlx5::SetField(words, mlx5::command_out::kStatus, error.status());
    mlx5::SetField(words, mlx5::command_out::kSyndrome,
                   static_cast<uint32_t>(opcode) << 16 | static_cast<uint32_t>(error.status()));
    respond();
    throw Errno(EREMOTEIO, error.what());
  }
  respond();
}

void GeneralCommand(Call& call) {
  RunCommand(call, MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT,
             [](const Mailboxes& mail) { FindCommand(GeneralCommands(), mail)(mail); });
}

void QueryEqn(Call& call) {
  CheckDevx(call);
  const auto vector = call.request().Get<uint32_t>(MLX5_IB_ATTR_DEVX_QUERY_EQN_USER_VEC);
  if (vector >= limits::kCompletionVectors) throw Errno(EINVAL, "the completion vector does not exist");
  call.request().Set(MLX5_IB_ATTR_DEVX_QUERY_EQN_DEV_EQN, limits::kFirstEqn + vector);
}

void CreateObject(Call& call) {
  RunCommand(call, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT,
             [&](const Mailboxes& mail) {
               auto object = FindCommand(CreateCommands(), mail)(mail);
               call.request().SetHandle(MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE,
                                        call.context().Add(std::move(object)));
             });
}

void DestroyObject(Call& call) {
  const uint32_t handle = call.request().Handle(MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE);
  if (!call.context().GetAny(handle).devx)
    throw Errno(EINVAL, "the object was not made by a firmware command");
  call.context().Destroy(handle);
}

/// Runs a command on an object of verbs or of a firmware command. The mailbox must name the same object.
void RunOnObject(Call& call, std::array<uint16_t, 3> ids, std::span<const ObjectCommand> for_qp,
                 std::span<const ObjectCommand> for_dct) {
  const auto [handle_id, in_id, out_id] = ids;
  const Object& object = call.context().GetAny(call.request().Handle(handle_id));
  RunCommand(call, in_id, out_id, [&](const Mailboxes& mail) {
    const bool qp = object.kind == Kind::kQp;
    const bool dct = qp && mail.hca().Qp(object.number).config.service == mlx5::ServiceType::kDct;
    const auto run = FindCommand(dct ? for_dct : for_qp, mail);
    if (!qp || mail.Get(mlx5::command_in::kObjectNumber) != object.number) {
      throw Errno(EINVAL, "the command names another object than the handle");
    }
    run(mail, object);
  });
}

void ModifyObject(Call& call) {
  RunOnObject(call,
              {MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN,
               MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT},
              ModifyQpCommands(), ModifyDctCommands());
}

void QueryObject(Call& call) {
  RunOnObject(call,
              {MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE, MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN,
               MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT},
              QueryQpCommands(), QueryDctCommands());
}

void RegisterUmem(Call& call) {
  IoctlRequest& request = call.request();
  const auto start = request.Get<uint64_t>(MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR);
  const auto bytes = request.Get<uint64_t>(MLX5_IB_ATTR_DEVX_UMEM_REG_LEN);
  const auto access = request.Get<uint32_t>(MLX5_IB_ATTR_DEVX_UMEM_REG_ACCESS);
  constexpr uint32_t kKnown =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_RELAXED_ORDERING;
  const bool writable = (access & IBV_ACCESS_LOCAL_WRITE) != 0;
  if ((access & ~kKnown) != 0 || ((access & IBV_ACCESS_REMOTE_WRITE) != 0 && !writable)) {
    throw Errno(EINVAL, "a umem does not support access flags " + std::to_string(access));
  }
  if (request.Get<uint64_t>(MLX5_IB_ATTR_DEVX_UMEM_REG_PGSZ_BITMAP, 1) == 0) {
    throw Errno(EINVAL, "a umem needs a page size");
  }
  constexpr uint16_t kExport = MLX5_IB_ATTR_DEVX_UMEM_REG_DMABUF_FD;
  const UserRange range = request.Has(kExport)
                              ? FindExport(static_cast<int>(request.Handle(kExport)), start, bytes, writable)
                              : FindRange(start, bytes, writable);
  CheckDevx(call);
  const uint32_t umem = call.hca().RegisterUmem({{range.start, static_cast<size_t>(bytes)}, range.Hold()});
  request.SetHandle(MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE,
                    call.context().Add(std::make_unique<UmemObject>(umem, writable)));
  request.Set(MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID, umem);
}

void DeregisterUmem(Call& call) { call.Destroy(MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE, Kind::kUmem); }

void RefuseAsyncCommands(Call&) {
  throw Errno(EOPNOTSUPP, "asynchronous firmware commands are not supported");
}

constexpr Method kDevxMethods[] = {
    {MLX5_IB_OBJECT_DEVX_ASYNC_CMD_FD,
     MLX5_IB_METHOD_DEVX_ASYNC_CMD_FD_ALLOC,
     "DEVX command channel create",
     RefuseAsyncCommands,
     {Required(MLX5_IB_ATTR_DEVX_ASYNC_CMD_FD_ALLOC_HANDLE)}},
    {MLX5_IB_OBJECT_DEVX,
     MLX5_IB_METHOD_DEVX_OTHER,
     "DEVX general command",
     GeneralCommand,
     {Required(MLX5_IB_ATTR_DEVX_OTHER_CMD_IN), Required(MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT)}},
    {MLX5_IB_OBJECT_DEVX,
     MLX5_IB_METHOD_DEVX_QUERY_EQN,
     "DEVX query EQN",
     QueryEqn,
     {Required(MLX5_IB_ATTR_DEVX_QUERY_EQN_USER_VEC), Required(MLX5_IB_ATTR_DEVX_QUERY_EQN_DEV_EQN)}},
    {MLX5_IB_OBJECT_DEVX_OBJ,
     MLX5_IB_METHOD_DEVX_OBJ_CREATE,
     "DEVX object create",
     CreateObject,
     {Required(MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE), Required(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN),
      Required(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT)}},
    {MLX5_IB_OBJECT_DEVX_OBJ,
     MLX5_IB_METHOD_DEVX_OBJ_DESTROY,
     "DEVX object destroy",
     DestroyObject,
     {Required(MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE)}},
    {MLX5_IB_OBJECT_DEVX_OBJ,
     MLX5_IB_METHOD_DEVX_OBJ_MODIFY,
     "DEVX object modify",
     ModifyObject,
     {Required(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE), Required(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN),
      Required(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT)}},
    {MLX5_IB_OBJECT_DEVX_OBJ,
     MLX5_IB_METHOD_DEVX_OBJ_QUERY,
     "DEVX object query",
     QueryObject,
     {Required(MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE), Required(MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN),
      Required(MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT)}},
    {MLX5_IB_OBJECT_DEVX_UMEM,
     MLX5_IB_METHOD_DEVX_UMEM_REG,
     "DEVX umem register",
     RegisterUmem,
     {Required(MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE), Required(MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR),
      Required(MLX5_IB_ATTR_DEVX_UMEM_REG_LEN), Required(MLX5_IB_ATTR_DEVX_UMEM_REG_ACCESS),
      Required(MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID), Optional(MLX5_IB_ATTR_DEVX_UMEM_REG_PGSZ_BITMAP),
      Optional(MLX5_IB_ATTR_DEVX_UMEM_REG_DMABUF_FD)}},
    {MLX5_IB_OBJECT_DEVX_UMEM,
     MLX5_IB_METHOD_DEVX_UMEM_DEREG,
     "DEVX umem deregister",
     DeregisterUmem,
     {Required(MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE)}},
};

}  // namespace

std::span<const Method> DevxMethods() { return kDevxMethods; }

}  // namespace softhca::uverbs
