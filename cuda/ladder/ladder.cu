#include "cuda/ladder/ladder.h"

namespace oxrse::OXRSE_GPU {

const ::oxrse::cuda::Ladders& ladders() {
  static const ::oxrse::cuda::Ladders all = {
      .rmsnorm_backward = {{.name = "ladder-1-thread-a-row", .launch = ladder::rmsnorm_thread_a_row, .deterministic = false},
                           {.name = "ladder-2-warp-a-row", .launch = ladder::rmsnorm_warp_a_row, .deterministic = false},
                           {.name = "ladder-3-block-sums", .launch = ladder::rmsnorm_block_sums, .deterministic = false},
                           {.name = "ladder-4-ordered-sums", .launch = ladder::rmsnorm_ordered_sums},
                           {.name = "ladder-5-engine", .launch = launch}},
      .attention_forward = {{.name = "ladder-1-scores-in-memory", .launch = ladder::attention_scores_in_memory},
                            {.name = "ladder-2-warp-a-query", .launch = ladder::attention_warp_a_query},
                            {.name = "ladder-3-shared-tiles", .launch = ladder::attention_shared_tiles},
                            {.name = "ladder-4-tensor-cores", .launch = ladder::attention_tensor_cores},
                            {.name = "ladder-5-two-buffers", .launch = ladder::attention_two_buffers},
                            {.name = "ladder-6-engine", .launch = launch}}};
  return all;
}

}  // namespace oxrse::OXRSE_GPU
