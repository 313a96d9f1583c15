#include <rdma/ib_user_verbs.h>

#include "uverbs/method.hpp"

namespace softhca::uverbs {
namespace {

void AllocAsync(Call& call) {
  const auto pipe = call.context().AddPipe(EventSort::kVerbs, sizeof(ib_uverbs_async_event_desc));
  call.request().SetHandle(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE,
                           static_cast<uint32_t>(pipe->program_end()));
}

void CreateCompletionChannel(Call& call) {
  const auto pipe = call.context().AddPipe(EventSort::kVerbs, sizeof(ib_uverbs_comp_event_desc));
  call.request().Set(UVERBS_ATTR_CORE_OUT,
                     ib_uverbs_create_comp_channel_resp{static_cast<uint32_t>(pipe->program_end())});
}

constexpr Method kEventMethods[] = {
    {UVERBS_OBJECT_ASYNC_EVENT,
     UVERBS_METHOD_ASYNC_EVENT_ALLOC,
     "ALLOC_ASYNC_EVENT",
     AllocAsync,
     {Required(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE)}},
};

constexpr WriteCommand kEventCommands[] = {
    {IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, "CREATE_COMP_CHANNEL", CreateCompletionChannel,
     sizeof(ib_uverbs_create_comp_channel), sizeof(ib_uverbs_create_comp_channel_resp)},
};

}  // namespace

std::span<const Method> EventMethods() { return kEventMethods; }
std::span<const WriteCommand> EventCommands() { return kEventCommands; }

}  // namespace softhca::uverbs
