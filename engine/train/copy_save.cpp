#include "engine/train/copy_save.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "io/checkpoint/directory.h"
#include "io/files.h"
#include "io/mapped_output.h"

namespace oxrse::train {

/// The shards on their way between nodes, in files that are mapped into memory.
struct CopySave::Transfer {
  std::vector<comm::Message> messages;  // of all ranks
  std::optional<io::MappedFile> sent;
  std::vector<io::MappedOutput> received;
  comm::Operands operands;
  std::shared_ptr<const comm::Plan> plan;
  std::optional<comm::Communicator::Ticket> ticket;

  void open(const Nodes& nodes, const std::filesystem::path& shards) {
    for (const comm::Message& m : messages) {
      if (m.from == nodes.rank()) {
        sent.emplace(shards / io::shard_name(m.from));
        operands.inputs.push_back(const_cast<std::byte*>(sent->data()));
      } else if (m.to == nodes.rank()) {
        received.emplace_back(shards / io::shard_name(m.from), m.bytes);
        operands.inputs.push_back(received.back().data());
      }
    }
  }
};

CopySave::CopySave(comm::Communicator* ranks, Nodes nodes, std::filesystem::path directory)
    : ranks_(ranks), nodes_(std::move(nodes)), directory_(std::move(directory)), save_(ranks, directory_, nodes_.leads()) {}

void CopySave::begin(const io::CheckpointState& state) {
  state_ = state;
  stage_ = Stage::Writing;
  written_ = false;
  save_.begin(state.step);
}

void CopySave::write(std::span<const io::CheckpointEntry> entries, const std::string& failure) {
  save_.attempt([&] {
    require(failure.empty(), "{}", failure);
    if (nodes_.leads() && newest_) io::apply_retention(directory_, *newest_, 1);  // memory for two is what was asked for
  });
  save_.write(state_, entries, {});
  written_ = true;
}

bool CopySave::busy() const {
  if (stage_ == Stage::Writing) return !written_;
  return stage_ == Stage::Sending && transfer_->ticket && !ranks_->done(*transfer_->ticket);
}

std::optional<std::string> CopySave::advance() {
  try {
    stage_ == Stage::Writing ? send() : end();
  } catch (const AgreedError& error) {
    give_up();
    return error.what();
  }
  return std::nullopt;
}

/// What some nodes have committed goes, too: memory for it was not asked for.
void CopySave::give_up() {
  std::error_code ignored;
  if (nodes_.leads()) std::filesystem::remove_all(directory_ / io::step_name(state_.step), ignored);
  stage_ = Stage::None;
  transfer_.reset();
}

std::optional<std::string> CopySave::finish() {
  std::optional<std::string> problem;
  while (going_on() && !problem) problem = advance();
  return problem;
}

void CopySave::send() {
  save_.exchange();
  stage_ = Stage::Sending;
  transfer_ = std::make_shared<Transfer>();
  for (int rank = 0; rank < nodes_.ranks(); ++rank) {
    const auto partner = nodes_.partner_of(rank);
    const std::int64_t bytes = save_.shards()[static_cast<std::size_t>(rank)].files.front().bytes;
    if (partner) transfer_->messages.push_back({.from = rank, .to = *partner, .bytes = bytes});
  }
  if (transfer_->messages.empty()) return;
  save_.attempt([&] { transfer_->open(nodes_, save_.directory()); });
  save_.agree();
  transfer_->plan = ranks_->plan(transfer_->messages);
  transfer_->ticket = ranks_->start({transfer_, transfer_->plan.get()}, transfer_->operands, "copies of checkpoints in memory");
}

void CopySave::end() {
  if (transfer_->ticket) ranks_->wait(*transfer_->ticket);
  transfer_.reset();
  save_.commit(state_, 0, [](const std::string&) {});
  save_.conclude();
  newest_ = state_.step;
  stage_ = Stage::None;
}

}  // namespace oxrse::train
