#pragma once

#include <string>
#include <string_view>

#include "io/tokenizer/bpe.h"

namespace oxrse::io {

/// Reads the tokenizer.json of a byte-level BPE in the format of Hugging Face's `tokenizers` library. What would change the tokens and
/// is not supported is refused by its name in the file. An Error does not name the file.
BpeParts read_tokenizer_json(std::string_view text);

/// The same format. The `tokenizers` library reads it and gives the same tokens.
std::string write_tokenizer_json(const BpeParts& parts);

/// GPT-2's two files: ids by the byte-level form of their tokens, and one merge a line after a line "#version". "<|endoftext|>" is
/// special when it is in the vocabulary.
BpeParts read_gpt2_files(std::string_view vocab_json, std::string_view merges_txt);

}  // namespace oxrse::io
