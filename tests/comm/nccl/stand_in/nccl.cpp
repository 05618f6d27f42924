#include <nccl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/core/error.h"
#include "tests/comm/nccl/stand_in/stand_in.h"

using namespace oxrse;
using namespace oxrse::comm;

namespace {

std::atomic<std::int64_t> moved = 0;

/// What is sent and not yet received.
struct Message {
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<bool> taken;
};

/// The ranks of a communicator.
struct World {
  std::mutex mutex;
  std::condition_variable changed;
  int joined = 0, left = 0;
  std::map<std::pair<int, int>, std::deque<Message>> messages;  // from, to
};

/// One end of a send or receive.
struct Piece {
  bool sends = false;
  void* data = nullptr;
  std::size_t bytes = 0;
  int peer = 0;
};

/// What outlives a communicator that is aborted while its group is on a stream.
struct Membership {
  std::shared_ptr<World> world;
  int rank = 0, ranks = 1, device = 0;
  bool aborted = false;              // guarded by the world's mutex
  ncclResult_t error = ncclSuccess;  // the same
};

std::shared_ptr<World> world_of(const ncclUniqueId& id) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<World>> worlds;
  const std::lock_guard lock(mutex);
  auto& known = worlds[std::string(id.internal, sizeof id.internal)];
  std::shared_ptr<World> world = known.lock();
  if (!world) known = world = std::make_shared<World>();
  return world;
}

/// Carries out a group: sends and receives of all pairs at once, in order for each pair. Waits for the others as the kernels of NCCL do.
void run_group(Membership& member, const std::vector<Piece>& pieces) {
  World& world = *member.world;
  const auto reach = [&](const Piece& p) { return stand_in::host_address(p.data, p.bytes, member.device); };
  std::unique_lock lock(world.mutex);
  std::vector<std::shared_ptr<bool>> sent;
  for (const Piece& p : pieces) {
    if (!p.sends) continue;
    sent.push_back(std::make_shared<bool>(false));
    world.messages[{member.rank, p.peer}].push_back({reach(p), p.bytes, sent.back()});
  }
  world.changed.notify_all();
  const auto withdraw = [&] {  // the memory of what was not taken is about to go
    for (auto& [ends, queue] : world.messages) {
      std::erase_if(queue, [&](const Message& m) { return std::find(sent.begin(), sent.end(), m.taken) != sent.end(); });
    }
  };
  for (const Piece& p : pieces) {
    if (p.sends) continue;
    std::deque<Message>& queue = world.messages[{p.peer, member.rank}];
    world.changed.wait(lock, [&] { return member.aborted || !queue.empty(); });
    if (member.aborted) return withdraw();
    const Message message = queue.front();
    queue.pop_front();
    if (message.bytes != p.bytes) {
      member.error = ncclInvalidUsage;
      return withdraw();
    }
    std::memcpy(reach(p), message.data, p.bytes);
    *message.taken = true;
    moved += static_cast<std::int64_t>(p.bytes);
    world.changed.notify_all();
  }
  world.changed.wait(lock, [&] {
    bool all = true;
    for (const auto& taken : sent) all = all && *taken;
    return member.aborted || all;
  });
  if (member.aborted) withdraw();
}

}  // namespace

std::int64_t stand_in::moved_bytes() { return moved; }

struct ncclComm {
  std::shared_ptr<Membership> member;
  int looks = 0;  // at its state before what was asked for last has been taken
  std::function<void()> pending;
  bool leaving = false;
};

namespace {

constexpr int kLooks = 2;

thread_local int group_depth = 0;
thread_local std::vector<Piece> group;
thread_local ncclComm_t group_comm = nullptr;
thread_local cudaStream_t group_stream = nullptr;
thread_local ncclResult_t group_error = ncclSuccess;

ncclResult_t add_to_group(const char* call, const Piece& piece, ncclComm_t comm, cudaStream_t stream) {
  const Membership& member = *comm->member;
  auto result = static_cast<ncclResult_t>(stand_in::failure_of(call, member.device));
  if (group_depth == 0 || piece.bytes == 0) result = ncclInvalidUsage;
  if (piece.peer < 0 || piece.peer >= member.ranks || piece.peer == member.rank) result = ncclInvalidArgument;
  try {
    stand_in::host_address(piece.data, piece.bytes, member.device);
  } catch (const Error&) {
    result = ncclInvalidArgument;
  }
  if (result != ncclSuccess) group_error = result;
  group.push_back(piece);
  group_comm = comm;
  group_stream = stream;
  return result;
}

}  // namespace

const char* ncclGetErrorString(ncclResult_t result) {
  static constexpr std::array kTexts = {"no error",         "unhandled cuda error", "unhandled system error", "internal error",
                                        "invalid argument", "invalid usage",        "remote process exited",  "in progress"};
  return kTexts.at(static_cast<std::size_t>(result));
}

const char* ncclGetLastError(ncclComm_t comm) { return comm == nullptr ? "" : "the stand-in was told to"; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static int drawn = 0;
  *id = {};
  ++drawn;
  std::memcpy(id->internal + 50, &drawn, sizeof drawn);
  return static_cast<ncclResult_t>(stand_in::failure_of("ncclGetUniqueId", stand_in::current_device()));
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidUsage;  // this stand-in never waits
  const int device = stand_in::current_device();
  if (const int code = stand_in::failure_of("ncclCommInitRankConfig", device)) return static_cast<ncclResult_t>(code);
  *comm = new ncclComm{.member = std::make_shared<Membership>(), .looks = kLooks, .pending = {}, .leaving = false};
  Membership& member = *(*comm)->member;
  member.world = world_of(id);
  member.rank = rank;
  member.ranks = ranks;
  member.device = device;
  const std::lock_guard lock(member.world->mutex);
  ++member.world->joined;
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  Membership& member = *comm->member;
  if (const int code = stand_in::failure_of("async", member.device)) {
    *error = static_cast<ncclResult_t>(code);
    return ncclSuccess;
  }
  {
    const std::lock_guard lock(member.world->mutex);
    *error = member.error;
    if (member.error != ncclSuccess) return ncclSuccess;
    const bool is_alone = member.world->joined < member.ranks || (comm->leaving && member.world->left < member.ranks);
    if (is_alone) *error = ncclInProgress;
    if (is_alone) return ncclSuccess;
  }
  if (comm->looks > 0) {
    --comm->looks;
    *error = ncclInProgress;
    return ncclSuccess;
  }
  if (comm->pending) std::exchange(comm->pending, {})();
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const std::lock_guard lock(comm->member->world->mutex);
  ++comm->member->world->left;
  comm->leaving = true;
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  {
    const std::lock_guard lock(comm->member->world->mutex);
    comm->member->aborted = true;
    comm->member->world->changed.notify_all();
  }
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  --group_depth;
  const std::vector<Piece> pieces = std::exchange(group, {});
  const ncclResult_t error = std::exchange(group_error, ncclSuccess);
  if (error != ncclSuccess) return error;
  if (pieces.empty()) return ncclSuccess;
  if (const int code = stand_in::failure_of("ncclGroupEnd", group_comm->member->device)) return static_cast<ncclResult_t>(code);
  // The stream gets it later: what is put there before is ahead of it.
  group_comm->pending = [member = group_comm->member, stream = group_stream, pieces] {
    stand_in::Stream::of(stream).push([member, pieces] { run_group(*member, pieces); });
  };
  group_comm->looks = kLooks;
  return ncclInProgress;
}

ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t /*type*/, int peer, ncclComm_t comm, cudaStream_t stream) {
  return add_to_group("ncclSend", {true, const_cast<void*>(data), count, peer}, comm, stream);
}

ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t /*type*/, int peer, ncclComm_t comm, cudaStream_t stream) {
  return add_to_group("ncclRecv", {false, data, count, peer}, comm, stream);
}
