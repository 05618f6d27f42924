#pragma once

#include <cstddef>
#include <cstdint>

namespace oxrse::io {

/// out (columns, rows) = in (rows, columns) transposed; elements of 2, 4 or 8 bytes at any address.
void transpose(std::byte* out, const std::byte* in, std::int64_t rows, std::int64_t columns, std::int64_t element_bytes);

}  // namespace oxrse::io
