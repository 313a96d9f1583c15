#include <algorithm>

#include "uverbs/method.hpp"

namespace softhca::uverbs {
namespace {

const Method* Find(const IoctlRequest& request) {
  for (const auto methods : {DeviceMethods(), PdMethods(), XrcdMethods(), MrMethods(), MwMethods(),
                             CqMethods(), SrqMethods(), QpMethods(), AddressMethods(), EventMethods(),
                             UarMethods(), CardMemoryMethods(), DevxMethods(), DevxEventMethods()}) {
    const auto found = std::find_if(methods.begin(), methods.end(), [&](const Method& method) {
      return method.object == request.object() && method.id == request.method();
    });
    if (found != methods.end()) return &*found;
  }
  return nullptr;
}

const WriteCommand* FindWriteCommand(uint32_t id) {
  for (const auto commands :
       {DeviceCommands(), PdCommands(), XrcdCommands(), MrCommands(), MwCommands(), CqCommands(),
        EventCommands(), SrqCommands(), QpCommands(), AddressCommands()}) {
    const auto found = std::find_if(commands.begin(), commands.end(),
                                    [&](const WriteCommand& command) { return command.id == id; });
    if (found != commands.end()) return &*found;
  }
  return nullptr;
}

bool IsInvokeWrite(const IoctlRequest& request) {
  return request.object() == UVERBS_OBJECT_DEVICE && request.method() == UVERBS_METHOD_INVOKE_WRITE;
}

}  // namespace

const char* Name(const IoctlRequest& request) {
  if (IsInvokeWrite(request) && request.Length(UVERBS_ATTR_WRITE_CMD) >= sizeof(uint32_t)) {
    const WriteCommand* const command = FindWriteCommand(request.Get<uint32_t>(UVERBS_ATTR_WRITE_CMD));
    return command == nullptr ? "write command" : command->name;
  }
  const Method* const method = Find(request);
  return method == nullptr ? "command" : method->name;
}

void Dispatch(Call& call) {
  const IoctlRequest& request = call.request();
  const Method* const method = Find(request);
  if (method == nullptr) {
    throw Errno(EPROTONOSUPPORT, "method " + std::to_string(request.method()) + " of object " +
                                     std::to_string(request.object()) + " does not exist");
  }
  request.Check(method->attributes);
  method->run(call);
}

void InvokeWrite(Call& call) {
  const IoctlRequest& request = call.request();
  const auto id = request.Get<uint32_t>(UVERBS_ATTR_WRITE_CMD);
  const WriteCommand* const command = FindWriteCommand(id);
  if (command == nullptr) throw Errno(EOPNOTSUPP, "write command " + std::to_string(id) + " does not exist");
  // By this errno rdma-core recognises a kernel that supports these commands.
  if (request.Length(UVERBS_ATTR_CORE_IN) < command->input_bytes ||
      request.Length(UVERBS_ATTR_CORE_OUT) < command->output_bytes) {
    throw Errno(ENOSPC, "the command's structures are too short");
  }
  command->run(call);
}

}  // namespace softhca::uverbs
