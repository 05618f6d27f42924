#pragma once

#include <cstdint>
#include <string>

#include "engine/core/config_field.h"

namespace oxrse::io {

/// The section "checkpoint" of a config.
struct CheckpointConfig {
  std::int64_t every = 200;
  std::int64_t keep = 3;
  bool async = true;
  std::string when_busy = "wait";
  std::int64_t weights_every = 0;
  bool incremental = false;
  bool compress = false;
  std::string moments = "f32";
  bool peer = false;
  std::string peer_dir = "/dev/shm";
  double peer_hours = 24;
  double mtbf_h = 0;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit(self.every,
          Field{.key = "every", .meaning = "save everything after this many steps; 0: only at the end", .unit = "steps", .min = 0});
    visit(self.keep, Field{.key = "keep", .meaning = "newest checkpoints to keep; 0: all", .min = 0});
    visit(self.async, Field{.key = "async",
                            .meaning = "write in the background while training goes on; takes memory for a copy of weights and optimizer"});
    visit(
        self.when_busy,
        Field{.key = "when_busy", .meaning = "what a save does while the one before is still being written", .choices = {"wait", "skip"}});
    visit(self.weights_every, Field{.key = "weights_every",
                                    .meaning = "save the weights alone after this many steps, for evaluation; 0: never",
                                    .unit = "steps",
                                    .min = 0});
    visit(self.incremental, Field{.key = "incremental", .meaning = "link tensors that did not change since the last checkpoint"});
    visit(self.compress, Field{.key = "compress", .meaning = "shuffle bytes and deflate: smaller files, slower saves"});
    visit(self.moments, Field{.key = "moments",
                              .meaning = "type of AdamW's moments in checkpoints; with bf16 a resumed run is near the uninterrupted one",
                              .choices = {"f32", "bf16"}});
    visit(self.peer, Field{.key = "peer",
                           .meaning = "keep the newest checkpoint in the memory of the nodes too, each rank's part on two of them, to go "
                                      "on from after a failure"});
    visit(self.peer_dir, Field{.key = "peer_dir", .meaning = "file system in memory for these copies"});
    visit(self.peer_hours, Field{.key = "peer_hours",
                                 .meaning = "free this memory when nobody has gone on with the run for so long",
                                 .unit = "h",
                                 .min = 0,
                                 .above_min = true});
    visit(
        self.mtbf_h,
        Field{
            .key = "mtbf_h", .meaning = "mean time between failures, for advice on how often to save; 0: unknown", .unit = "h", .min = 0});
  }
};

}  // namespace oxrse::io
