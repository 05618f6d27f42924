#include "comm/checker.h"

#include <algorithm>
#include <bitset>
#include <map>
#include <set>
#include <utility>

#include "engine/core/error.h"

namespace oxrse::comm {
namespace {

/// Sums of contributions, each kept once: equal expressions have equal ids. Addition commutes, so it makes no difference which of two
/// addends came first.
class Expressions {
 public:
  static constexpr std::size_t kMostLeaves = 1024;

  int leaf(int rank, int part) {
    const auto [place, is_new] = leaves_.try_emplace({rank, part}, static_cast<int>(all_.size()));
    if (is_new) {
      require(leaves_.size() <= kMostLeaves, "the checker is made for at most {} contributions", kMostLeaves);
      Expression e{
          .hash = mixed(static_cast<std::uint64_t>(rank) << 20U | static_cast<std::uint64_t>(part)), .leaves = {}, .is_leaf = true};
      e.leaves.set(leaves_.size() - 1);
      all_.push_back(e);
    }
    return place->second;
  }

  /// An Error when the two have a contribution in common.
  int sum(int a, int b) {
    const auto key = std::minmax(a, b);
    const auto [place, is_new] = sums_.try_emplace(key, static_cast<int>(all_.size()));
    if (is_new) {
      const Expression &x = all_[static_cast<std::size_t>(a)], &y = all_[static_cast<std::size_t>(b)];
      require((x.leaves & y.leaves).none(), "a contribution is added twice");
      all_.push_back({.hash = mixed((x.hash + y.hash) ^ mixed(x.hash ^ y.hash)), .leaves = x.leaves | y.leaves, .is_leaf = false});
    }
    return place->second;
  }

  [[nodiscard]] bool is_leaf(int e) const { return all_[static_cast<std::size_t>(e)].is_leaf; }
  [[nodiscard]] std::size_t leaves(int e) const { return all_[static_cast<std::size_t>(e)].leaves.count(); }
  [[nodiscard]] std::uint64_t hash(int e) const { return all_[static_cast<std::size_t>(e)].hash; }

 private:
  struct Expression {
    std::uint64_t hash = 0;
    std::bitset<kMostLeaves> leaves;
    bool is_leaf = false;
  };
  static std::uint64_t mixed(std::uint64_t x) {  // the finaliser of splitmix64
    x = (x + 0x9E3779B97F4A7C15U) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31U);
  }

  std::vector<Expression> all_;
  std::map<std::pair<int, int>, int> leaves_, sums_;
};

/// One element: which sum, and of which element of the ranks' inputs.
struct Value {
  int expression = -1;  // -1: nothing was written here
  std::int64_t element = 0;
  bool rounded = false;  // a sum kept in the type of elements although sums need a wider one

  bool operator==(const Value&) const = default;
};

/// The buffers of one rank.
class RankMemory {
 public:
  RankMemory(const Request& request, const Program& program, int rank) : request_(request), rank_(rank) {
    const int parts = std::max(request.tree.parts(), 1);
    for (int p = 0; p < parts; ++p) inputs_.emplace_back(static_cast<std::size_t>(request.count));
    if (!request.in_place) output_.resize(static_cast<std::size_t>(request.count));
    scratch_.resize(static_cast<std::size_t>(program.scratch));
  }

  /// The elements of a range; an Error where it leaves its buffer.
  Value* at(const Range& r, const char* what) {
    std::vector<Value>& memory = memory_of(r);
    std::int64_t begin = 0, end = std::ssize(memory);
    const bool is_share = !request_.in_place && ((r.buffer == Buffer::Input && request_.collective == Collective::AllGather) ||
                                                 (r.buffer == Buffer::Output && request_.collective == Collective::ReduceScatter));
    if (is_share) {
      begin = request_.bounds[static_cast<std::size_t>(rank_)];
      end = request_.bounds[static_cast<std::size_t>(rank_) + 1];
    }
    require(r.count > 0 && r.offset >= begin && r.offset + r.count <= end, "{} elements [{}, {}) of a buffer of [{}, {})", what, r.offset,
            r.offset + r.count, begin, end);
    return memory.data() + r.offset;
  }
  /// Whether two ranges have an element in common, and whether they are the same.
  [[nodiscard]] bool overlap(const Range& a, const Range& b) {
    return a.count > 0 && b.count > 0 && &memory_of(a) == &memory_of(b) && a.offset < b.offset + b.count && b.offset < a.offset + a.count;
  }
  [[nodiscard]] bool same(const Range& a, const Range& b) {
    return &memory_of(a) == &memory_of(b) && a.offset == b.offset && a.count == b.count;
  }
  std::vector<Value>& memory_of(const Range& r) {
    if (r.buffer == Buffer::Scratch) return scratch_;
    if (r.buffer == Buffer::Output) return request_.in_place ? inputs_[0] : output_;
    require(r.part >= 0 && r.part < std::ssize(inputs_), "there is no part {} of the input", r.part);
    return inputs_[static_cast<std::size_t>(r.part)];
  }

 private:
  const Request& request_;
  int rank_;
  std::vector<std::vector<Value>> inputs_;
  std::vector<Value> output_, scratch_;
};

class Simulation {
 public:
  explicit Simulation(const Schedule& schedule) : schedule_(schedule), request_(schedule.request) {
    const int n = request_.ranks();
    require(std::ssize(schedule.programs) == n, "{} programs for {} ranks", schedule.programs.size(), n);
    for (int r = 0; r < n; ++r) {
      memory_.emplace_back(request_, schedule.programs[static_cast<std::size_t>(r)], r);
      fill_inputs(r);
    }
    ranks_.resize(static_cast<std::size_t>(n));
  }

  Checked run() {
    for (int r = 0; r < request_.ranks(); ++r) enter_step(r);
    while (advance()) {
    }
    require_ended();
    return judge();
  }

 private:
  struct Rank {
    std::size_t step = 0;
    std::vector<bool> done;  // transfers of the step
    std::int64_t sent = 0;
  };

  void fill_inputs(int rank) {
    const bool is_share = request_.collective == Collective::AllGather;
    if (request_.collective == Collective::Broadcast && rank != request_.root) return;
    for (const auto& node : request_.tree.nodes()) {
      if (!node.is_leaf() || node.rank != rank) continue;
      const Range whole{Buffer::Input, node.part, 0, request_.count};
      std::vector<Value>& input = memory_[static_cast<std::size_t>(rank)].memory_of(whole);
      const std::int64_t begin = is_share ? request_.bounds[static_cast<std::size_t>(rank)] : 0;
      const std::int64_t end = is_share ? begin + request_.share(rank) : request_.count;
      for (std::int64_t i = begin; i < end; ++i) input[static_cast<std::size_t>(i)] = {expressions_.leaf(rank, node.part), i, false};
    }
  }

  [[nodiscard]] const Program& program(int rank) const { return schedule_.programs[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] bool ended(int rank) const { return ranks_[static_cast<std::size_t>(rank)].step >= program(rank).steps.size(); }
  [[nodiscard]] const Step& step_of(int rank) const { return program(rank).steps[ranks_[static_cast<std::size_t>(rank)].step]; }
  [[nodiscard]] std::string place(int rank) const {
    return fmt::format("rank {}, step {}", rank, ranks_[static_cast<std::size_t>(rank)].step);
  }

  /// Posts the transfers of a rank's step. Steps that have none end at once.
  void enter_step(int rank) {
    Rank& state = ranks_[static_cast<std::size_t>(rank)];
    for (; !ended(rank); ++state.step) {
      check_transfers(rank, step_of(rank));
      state.done.assign(step_of(rank).transfers.size(), false);
      if (!state.done.empty()) return;
      run_local(rank);
    }
  }

  void check_transfers(int rank, const Step& step) {
    RankMemory& memory = memory_[static_cast<std::size_t>(rank)];
    const auto written = [](const Action& a) { return a.kind == Action::Kind::Send ? Range{} : a.to; };
    for (std::size_t i = 0; i < step.transfers.size(); ++i) {
      const Action& a = step.transfers[i];
      require(a.kind == Action::Kind::Send || a.kind == Action::Kind::Receive || a.kind == Action::Kind::ReceiveReduce,
              "{}: a local action among the transfers", place(rank));
      require(a.peer >= 0 && a.peer < request_.ranks() && a.peer != rank, "{}: a transfer with rank {}", place(rank), a.peer);
      require(a.kind != Action::Kind::Send || !request_.wide || a.wide == (a.from.buffer == Buffer::Scratch),
              "{}: a message to rank {} has not the type of its buffer", place(rank), a.peer);
      require(!memory.overlap(written(a), a.with) || memory.same(a.to, a.with), "{}: an addend is partly overwritten", place(rank));
      for (std::size_t j = 0; j < step.transfers.size(); ++j) {
        if (i == j) continue;
        const Action& b = step.transfers[j];
        for (const Range& other : {b.from, b.to, b.with}) {
          require(!memory.overlap(written(a), other), "{}: transfers {} and {} use the same elements", place(rank), i, j);
        }
      }
    }
  }

  /// Carries out every transfer of which both ends are posted; false when there was none.
  bool advance() {
    bool any = false;
    for (int to = 0; to < request_.ranks(); ++to) {
      if (ended(to)) continue;
      std::set<int> waiting;  // peers whose message must come before their next one
      const Step& step = step_of(to);
      for (std::size_t i = 0; i < step.transfers.size(); ++i) {
        const Action& receive = step.transfers[i];
        if (receive.kind == Action::Kind::Send || ranks_[static_cast<std::size_t>(to)].done[i] || waiting.contains(receive.peer)) continue;
        if (match(to, receive)) {
          ranks_[static_cast<std::size_t>(to)].done[i] = true;
          any = true;
        } else {
          waiting.insert(receive.peer);
        }
      }
    }
    for (int r = 0; r < request_.ranks(); ++r) {
      Rank& state = ranks_[static_cast<std::size_t>(r)];
      if (ended(r) || !std::all_of(state.done.begin(), state.done.end(), [](bool d) { return d; })) continue;
      run_local(r);
      ++state.step;
      enter_step(r);
      any = true;
    }
    return any;
  }

  /// Takes the first posted message of the peer for `to`, if there is one.
  bool match(int to, const Action& receive) {
    const int from = receive.peer;
    if (ended(from)) return false;
    Rank& sender = ranks_[static_cast<std::size_t>(from)];
    const Step& step = step_of(from);
    for (std::size_t i = 0; i < step.transfers.size(); ++i) {
      const Action& send = step.transfers[i];
      if (send.kind != Action::Kind::Send || send.peer != to || sender.done[i]) continue;
      require(send.from.count == receive.to.count, "{} sends {} elements to {}, which expects {}", place(from), send.from.count, place(to),
              receive.to.count);
      require(!request_.wide || send.wide == receive.wide, "{} and {} do not agree about the type of a message", place(from), place(to));
      deliver(from, send, to, receive);
      sender.done[i] = true;
      sender.sent += send.from.count;
      ++messages_;
      return true;
    }
    return false;
  }

  void deliver(int from, const Action& send, int to, const Action& receive) {
    const Value* source = memory_[static_cast<std::size_t>(from)].at(send.from, "sends");
    const std::vector<Value> message(source, source + send.from.count);
    try {
      write(to, receive.to, receive.kind == Action::Kind::ReceiveReduce ? &receive.with : nullptr, message);
    } catch (const Error& error) {
      throw error.in(fmt::format("{}, message from {}", place(to), place(from)));
    }
  }

  void run_local(int rank) {
    for (const Action& a : step_of(rank).local) {
      try {
        require(a.kind == Action::Kind::Copy || a.kind == Action::Kind::Reduce, "a transfer among the local actions");
        const Value* source = memory_[static_cast<std::size_t>(rank)].at(a.from, "reads");
        require(a.from.count == a.to.count, "{} elements become {}", a.from.count, a.to.count);
        write(rank, a.to, a.kind == Action::Kind::Reduce ? &a.with : nullptr, std::vector<Value>(source, source + a.from.count));
      } catch (const Error& error) {
        throw error.in(place(rank));
      }
    }
  }

  /// to = values, or to = with + values.
  void write(int rank, const Range& to, const Range* with, const std::vector<Value>& values) {
    RankMemory& memory = memory_[static_cast<std::size_t>(rank)];
    Value* target = memory.at(to, "writes");
    require(with == nullptr || with->count == to.count, "sums of {} and {} elements", with == nullptr ? 0 : with->count, to.count);
    require(to.buffer != Buffer::Input || (request_.in_place && !request_.wide), "the input is overwritten");
    const Value* addend = with == nullptr ? nullptr : memory.at(*with, "adds");
    for (std::size_t i = 0; i < values.size(); ++i) {
      Value v = values[i];
      require(v.expression >= 0, "element {} was never written", i);
      if (addend != nullptr) {
        const Value& w = addend[i];
        require(w.expression >= 0, "the addend of element {} was never written", i);
        require(v.element == w.element, "elements {} and {} are added", v.element, w.element);
        require(!v.rounded && !w.rounded, "a sum is rounded before it is complete");
        v.expression = expressions_.sum(v.expression, w.expression);
      }
      v.rounded = v.rounded || (request_.wide && to.buffer != Buffer::Scratch && !expressions_.is_leaf(v.expression));
      target[i] = v;
    }
  }

  void require_ended() const {
    for (int r = 0; r < request_.ranks(); ++r) {
      require(ended(r), "{} never ends: {} of {} ranks wait for ever", place(r),
              std::count_if(ranks_.begin(), ranks_.end(), [&](const Rank& s) { return !ended(static_cast<int>(&s - ranks_.data())); }),
              request_.ranks());
    }
  }

  int tree_sum(int node) {
    const auto& v = request_.tree.nodes()[static_cast<std::size_t>(node)];
    if (v.is_leaf()) return expressions_.leaf(v.rank, v.part);
    const int left = tree_sum(v.left);
    return expressions_.sum(left, tree_sum(v.right));
  }

  /// The element that `rank` must have at `i` of its output, where that is not a sum.
  [[nodiscard]] std::pair<int, std::int64_t> expected(int rank, std::int64_t i) const {
    const auto& bounds = request_.bounds;
    const int share = static_cast<int>(std::upper_bound(bounds.begin(), bounds.end(), i) - bounds.begin()) - 1;
    if (request_.collective == Collective::Broadcast) return {request_.root, i};
    if (request_.collective == Collective::AllGather) return {share, i};
    return {share, bounds[static_cast<std::size_t>(rank)] + i - bounds[static_cast<std::size_t>(share)]};  // all_to_all
  }

  Checked judge() {
    Checked result{.keeps_tree = true, .messages = messages_};
    const bool sums = request_.collective == Collective::AllReduce || request_.collective == Collective::ReduceScatter;
    const int tree = sums ? tree_sum(request_.tree.root()) : -1;
    std::vector<int> first(static_cast<std::size_t>(request_.count), -1);  // the sums of the first rank that has them
    std::set<std::uint64_t> classes;
    for (int r = 0; r < request_.ranks(); ++r) {
      const bool is_share = request_.collective == Collective::ReduceScatter;
      const std::int64_t begin = is_share ? request_.bounds[static_cast<std::size_t>(r)] : 0;
      const std::int64_t end = is_share ? begin + request_.share(r) : request_.count;
      std::vector<Value>& output = memory_[static_cast<std::size_t>(r)].memory_of({Buffer::Output, 0, 0, 0});
      for (std::int64_t i = begin; i < end; ++i) {
        const Value& v = output[static_cast<std::size_t>(i)];
        require(v.expression >= 0, "rank {} has nothing at {} of its output", r, i);
        if (sums) {
          require(v.element == i, "rank {} has element {} at {} of its output", r, v.element, i);
          require(expressions_.leaves(v.expression) == expressions_.leaves(tree), "rank {} has {} of {} contributions at {} of its output",
                  r, expressions_.leaves(v.expression), expressions_.leaves(tree), i);
          int& other = first[static_cast<std::size_t>(i)];
          require(other < 0 || other == v.expression, "rank {} has added up element {} in another order than an earlier rank", r, i);
          other = v.expression;
          result.keeps_tree = result.keeps_tree && v.expression == tree;
          classes.insert(expressions_.hash(v.expression));
        } else {
          const auto [rank, element] = expected(r, i);
          require(v.expression == expressions_.leaf(rank, 0) && v.element == element,
                  "rank {} has element {} at {} of its output, which is not element {} of rank {}", r, v.element, i, element, rank);
        }
      }
      result.most_sent = std::max(result.most_sent, ranks_[static_cast<std::size_t>(r)].sent);
      result.scratch = std::max(result.scratch, program(r).scratch);
    }
    for (const std::uint64_t c : classes) result.sum_class = result.sum_class * 0x100000001B3U + c;
    return result;
  }

  const Schedule& schedule_;
  const Request& request_;
  Expressions expressions_;
  std::vector<RankMemory> memory_;
  std::vector<Rank> ranks_;
  std::int64_t messages_ = 0;
};

}  // namespace

Checked check(const Schedule& schedule) {
  try {
    return Simulation(schedule).run();
  } catch (const Error& error) {
    throw error.in(fmt::format("{} by {} of {} elements over {} ranks", name_of(schedule.request.collective), name_of(schedule.algorithm),
                               schedule.request.count, schedule.request.ranks()));
  }
}

}  // namespace oxrse::comm
