#include "cuda/launch.h"

#include "cuda/resources.h"

namespace oxrse::cuda_emulated {

LaunchRecord describe(std::string_view kernel, const Grid& grid) {
  LaunchRecord record{.kernel = std::string(kernel), .threads = grid.threads, .shared = grid.shared};
  if (const cuda::Resources* known = cuda::resources_of(kernel); known != nullptr) {
    record.registers = known->registers;
    record.local = known->local;
  }
  return record;
}

}  // namespace oxrse::cuda_emulated
