#include "comm/failure/guard.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <new>

#include "comm/failure/sockets.h"
#include "comm/failure/watch.h"
#include "engine/core/error.h"

namespace oxrse::comm {
namespace {

guard::Answer ask(int control, const guard::Order& order) {
  guard::Answer answer;
  const bool ok = guard::send_all(control, &order, sizeof order) && guard::receive_all(control, &answer, sizeof answer);
  require(ok, "the guard process of this rank has ended");
  return answer;
}

}  // namespace

Guard::Guard(const std::string& name, std::chrono::milliseconds grace) {
  void* shared = mmap(nullptr, sizeof(Activity), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int ends[2];
  require(shared != MAP_FAILED && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "no guard process: {}",
          std::strerror(errno));
  activity_ = new (shared) Activity;
  const pid_t rank = getpid();
  const pid_t child = fork();
  require(child >= 0, "no guard process: {}", std::strerror(errno));
  if (child == 0) {
    close(ends[0]);
    guard::watch(ends[1], rank, name, *activity_, grace);
    _exit(0);
  }
  close(ends[1]);
  control_ = ends[0];
}

Guard::~Guard() {
  guard::Order order;
  order.kind = std::uncaught_exceptions() > 0 ? guard::Order::Kind::Failed : guard::Order::Kind::Done;
  guard::send_all(control_, &order, sizeof order);
  close(control_);
  munmap(activity_, sizeof(Activity));
}

GuardAddress Guard::listen(bool local) {
  guard::Order order;
  order.local = local;
  const guard::Answer answer = ask(control_, order);
  require(answer.problem[0] == 0, "the guard process {}", answer.problem.data());
  GuardAddress address = guard::this_machine();
  address.port = answer.port;
  return address;
}

std::string Guard::join(const GuardPlace& place) {
  guard::Order order;
  order.kind = guard::Order::Kind::Join;
  order.place = place;
  return ask(control_, order).problem.data();
}

}  // namespace oxrse::comm
