// Tokenizers shared by the tests of this folder.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "tokenizer/tokenizer.h"

namespace deepinfer::testing {

/// Text of the V3 file: the released base vocabulary and merges, with older added tokens.
const std::string& V3Json();
/// The V3 file with the added tokens of the released model (spec: checkpoint.md §8.3).
const std::string& V41Json();
std::shared_ptr<const Tokenizer> V3Tokenizer();
std::shared_ptr<const Tokenizer> V41Tokenizer();
std::shared_ptr<const Tokenizer> DemoTokenizer();

/// A small valid document: the 256 byte tokens (id = byte), the merged tokens "aa" 256 and "aaaa" 257, and the
/// added tokens `<a>` 258 (normalized) and `<b>` 259 (not normalized, special).
json::Value SmallDocument();

/// A field of a document for changing it, by a path like "model.merges" or "added_tokens[1].id". The last name may be new.
json::Value& FieldOf(json::Value& document, std::string_view path);

/// Loads a document; its Status when it is refused.
Result<std::shared_ptr<const Tokenizer>> FromDocument(const json::Value& document);

}  // namespace deepinfer::testing
