#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace oxrse::io {

/// The bytes of TensorBoard's event files: TFRecords (https://www.tensorflow.org/tutorials/load_data/tfrecord) of protocol buffers of
/// type Event (tensorflow/core/util/event.proto, tensorflow/core/framework/summary.proto).
using Scalar = std::pair<std::string_view, double>;  // tag, value

/// CRC-32C (Castagnoli), RFC 3720 appendix B.4.
std::uint32_t crc32c(std::string_view bytes);
/// u64 length | masked CRC of the length | data | masked CRC of the data; all little-endian.
std::string tf_record(std::string_view data);

/// The first event of a file. Times are seconds since 1970.
std::string version_event(double time);
/// The start of a run at `step`: readers forget what earlier files have of this and later steps.
std::string start_event(double time, std::int64_t step);
std::string scalars_event(double time, std::int64_t step, std::span<const Scalar> scalars);

}  // namespace oxrse::io
