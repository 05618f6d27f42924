#include "io/hf/dimensions.h"

#include <cctype>

namespace oxrse::io {
namespace {

std::string_view key_of(char letter) {
  switch (letter) {
    case 'C': return "width";
    case 'H': return "heads";
    case 'K': return "kv_heads";
    case 'D': return "head_width";
    case 'I': return "mlp_width";
    case 'V': return "vocab";
    case 'T': return "context";
    default: fail("'{}' is no letter of a size", letter);
  }
}

/// What a zero stands for.
std::string_view preset_of(char letter) {
  switch (letter) {
    case 'K': return "H";
    case 'D': return "C/H";
    case 'I': return "4C";
    default: return "";
  }
}

std::int64_t size_named(char letter, const Json& model) {
  const std::string_view key = key_of(letter);
  std::int64_t size = 0;
  if (model.contains(key)) {
    require(model.at(key).is_number_integer(), "model.{} is {}", key, model.at(key).dump());
    size = model.at(key).get<std::int64_t>();
  }
  if (size == 0 && !preset_of(letter).empty()) return dimension(preset_of(letter), model);
  require(size > 0, "model.{} is {}", key, size);
  return size;
}

std::int64_t product(std::string_view expression, const Json& model) {
  std::int64_t result = 1, number = 0;
  std::size_t i = 0;
  for (; i < expression.size() && std::isdigit(static_cast<unsigned char>(expression[i])) != 0; ++i)
    number = 10 * number + (expression[i] - '0');
  if (i > 0) result = number;
  for (; i < expression.size(); ++i) {
    require(!__builtin_mul_overflow(result, size_named(expression[i], model), &result), "the size {} overflows", expression);
  }
  return result;
}

}  // namespace

std::int64_t dimension(std::string_view expression, const Json& model) {
  const std::size_t slash = expression.find('/');
  if (slash == std::string_view::npos) return product(expression, model);
  const std::int64_t dividend = product(expression.substr(0, slash), model), divisor = product(expression.substr(slash + 1), model);
  require(dividend % divisor == 0, "{} is not a whole number: {} / {}", expression, dividend, divisor);
  return dividend / divisor;
}

}  // namespace oxrse::io
