#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <sys/stat.h>

#include "uverbs/method.hpp"

namespace softhca::uverbs {
namespace {

/// Returns the file that names a domain; nothing for a domain that is not shared.
std::optional<XrcdFile> FileOf(const ib_uverbs_open_xrcd& cmd) {
  const int fd = static_cast<int>(cmd.fd);
  if (fd == -1) return {};
  struct stat status {};
  if (fstat(fd, &status) != 0) throw Errno(EBADF, "the descriptor that names the XRC domain is not open");
  return XrcdFile{status.st_dev, status.st_ino};
}

/// Opens an XRC domain: a new one, or the one that this process has opened with the same file.
///
/// @source  Linux v6.1, drivers/infiniband/core/uverbs_cmd.c, ib_uverbs_open_xrcd()
void OpenXrcd(Call& call) {
  const auto cmd = call.request().Get<ib_uverbs_open_xrcd>(UVERBS_ATTR_CORE_IN);
  if ((cmd.oflags & ~uint32_t{O_CREAT | O_EXCL}) != 0)
    throw Errno(EINVAL, "only O_CREAT and O_EXCL are known");
  const std::optional<XrcdFile> file = FileOf(cmd);
  const bool exists = file && call.hca().HasXrcd(*file);
  if (file && !exists && (cmd.oflags & O_CREAT) == 0)
    throw Errno(EAGAIN, "no XRC domain is open with that file; create it with O_CREAT");
  if (exists && (cmd.oflags & O_EXCL) != 0) throw Errno(EINVAL, "an XRC domain is open with that file");
  ib_uverbs_open_xrcd_resp resp{};
  resp.xrcd_handle = call.context().Add(std::make_unique<Object>(Kind::kXrcd, call.hca().OpenXrcd(file)));
  call.request().Set(UVERBS_ATTR_CORE_OUT, resp);
}

void CloseXrcd(Call& call) { call.Destroy(UVERBS_ATTR_DESTROY_XRCD_HANDLE, Kind::kXrcd); }

constexpr Method kXrcdMethods[] = {
    {UVERBS_OBJECT_XRCD,
     UVERBS_METHOD_XRCD_DESTROY,
     "CLOSE_XRCD",
     CloseXrcd,
     {Required(UVERBS_ATTR_DESTROY_XRCD_HANDLE)}},
};

constexpr WriteCommand kXrcdCommands[] = {
    {IB_USER_VERBS_CMD_OPEN_XRCD, "OPEN_XRCD", OpenXrcd, sizeof(ib_uverbs_open_xrcd),
     sizeof(ib_uverbs_open_xrcd_resp)},
};

}  // namespace

std::span<const Method> XrcdMethods() { return kXrcdMethods; }
std::span<const WriteCommand> XrcdCommands() { return kXrcdCommands; }

}  // namespace softhca::uverbs
