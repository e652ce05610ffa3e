#include "tokenizer/tokenizer_json.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/json.h"
#include "tokenizer/byte_symbols.h"
#include "tokenizer/pretokenizer.h"

namespace deepinfer {
namespace {

using json::Value;

std::string Field(std::string_view outer, std::string_view key) {
  return outer.empty() ? std::string(key) : std::string(outer) + "." + std::string(key);
}

std::string Item(std::string_view outer, size_t index) {
  return std::string(outer) + "[" + std::to_string(index) + "]";
}

/// An excerpt of foreign text for a message.
std::string Quoted(std::string_view text) {
  constexpr size_t kMaxShown = 60;
  std::string out;
  json::AppendQuoted(text.substr(0, kMaxShown), &out);
  return text.size() > kMaxShown ? out + "…" : out;
}

/// The member `key` of the object `parent`; fails when it is absent.
Result<const Value*> Member(const Value& parent, std::string_view outer, std::string_view key) {
  const Value* value = parent.Find(key);
  if (value == nullptr) return DataLoss("the field is missing", Field(outer, key));
  return value;
}

/// Checks that `value` is an object with no members but the `known` ones.
Status CheckObject(const Value& value, std::string_view where,
                   std::initializer_list<std::string_view> known) {
  if (!value.is_object()) return DataLoss("must be an object", std::string(where));
  for (const auto& [key, member] : value.AsObject()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return DataLoss("unknown field; this tokenizer cannot be reproduced exactly", Field(where, key));
    }
  }
  return OkStatus();
}

Status CheckString(const Value& parent, std::string_view outer, std::string_view key,
                   std::string_view expected) {
  DEEPINFER_ASSIGN_OR_RETURN(const Value* value, Member(parent, outer, key));
  if (value->is_string() && value->AsString() == expected) return OkStatus();
  return DataLoss("must be " + Quoted(expected), Field(outer, key));
}

Result<bool> BoolMember(const Value& parent, std::string_view outer, std::string_view key) {
  DEEPINFER_ASSIGN_OR_RETURN(const Value* value, Member(parent, outer, key));
  if (!value->is_bool()) return DataLoss("must be true or false", Field(outer, key));
  return value->AsBool();
}

/// Fails unless the member is `false`; an absent one counts as false when `optional`.
Status CheckFalse(const Value& parent, std::string_view outer, std::string_view key, bool optional) {
  if (optional && parent.Find(key) == nullptr) return OkStatus();
  DEEPINFER_ASSIGN_OR_RETURN(const bool value, BoolMember(parent, outer, key));
  return value ? DataLoss("must be false", Field(outer, key)) : OkStatus();
}

/// Fails unless the member is absent, null or, when `or_empty`, an empty string.
Status CheckNull(const Value& parent, std::string_view outer, std::string_view key, bool or_empty = false) {
  const Value* value = parent.Find(key);
  if (value == nullptr || value->is_null()) return OkStatus();
  if (or_empty && value->is_string() && value->AsString().empty()) return OkStatus();
  return DataLoss("must be null", Field(outer, key));
}

/// A ByteLevel step. As decoder and post-processor its options change no id and no byte, so any value will do there.
Status CheckByteLevel(const Value& value, std::string_view where, bool options_matter) {
  DEEPINFER_RETURN_IF_ERROR(
      CheckObject(value, where, {"type", "add_prefix_space", "trim_offsets", "use_regex"}));
  DEEPINFER_RETURN_IF_ERROR(CheckString(value, where, "type", "ByteLevel"));
  for (const auto& [key, member] : value.AsObject()) {
    if (key != "type" && !member.is_bool()) return DataLoss("must be true or false", Field(where, key));
  }
  if (!options_matter) return OkStatus();
  DEEPINFER_RETURN_IF_ERROR(CheckFalse(value, where, "add_prefix_space", /*optional=*/false));
  return CheckFalse(value, where, "use_regex", /*optional=*/false);
}

/// Spells a literal CR or LF of a pattern as the escape, which means the same.
std::string WithEscapedLineBreaks(std::string_view pattern) {
  std::string out;
  for (const char c : pattern) {
    if (c == '\r') {
      out += "\\r";
    } else if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

Status CheckSplit(const Value& value, const std::string& where, std::string_view expected) {
  DEEPINFER_RETURN_IF_ERROR(CheckObject(value, where, {"type", "pattern", "behavior", "invert"}));
  DEEPINFER_RETURN_IF_ERROR(CheckString(value, where, "type", "Split"));
  DEEPINFER_RETURN_IF_ERROR(CheckString(value, where, "behavior", "Isolated"));
  DEEPINFER_RETURN_IF_ERROR(CheckFalse(value, where, "invert", /*optional=*/false));
  DEEPINFER_ASSIGN_OR_RETURN(const Value* pattern, Member(value, where, "pattern"));
  const std::string pattern_where = Field(where, "pattern");
  DEEPINFER_RETURN_IF_ERROR(CheckObject(*pattern, pattern_where, {"Regex"}));
  DEEPINFER_ASSIGN_OR_RETURN(const Value* regex, Member(*pattern, pattern_where, "Regex"));
  if (!regex->is_string() || WithEscapedLineBreaks(regex->AsString()) != expected) {
    return DataLoss("must be the pattern " + Quoted(expected), Field(pattern_where, "Regex"));
  }
  return OkStatus();
}

Status CheckPreTokenizer(const Value& root) {
  const std::string where = "pre_tokenizer";
  DEEPINFER_ASSIGN_OR_RETURN(const Value* sequence, Member(root, "", where));
  DEEPINFER_RETURN_IF_ERROR(CheckObject(*sequence, where, {"type", "pretokenizers"}));
  DEEPINFER_RETURN_IF_ERROR(CheckString(*sequence, where, "type", "Sequence"));
  DEEPINFER_ASSIGN_OR_RETURN(const Value* steps, Member(*sequence, where, "pretokenizers"));
  const std::string steps_where = Field(where, "pretokenizers");
  constexpr std::array kSplits = {kSplitNumbers, kSplitCjk, kSplitWords};
  if (!steps->is_array() || steps->AsArray().size() != kSplits.size() + 1) {
    return DataLoss("must be a list of three Split steps and one ByteLevel step", steps_where);
  }
  for (size_t i = 0; i < kSplits.size(); ++i) {
    DEEPINFER_RETURN_IF_ERROR(CheckSplit(steps->AsArray()[i], Item(steps_where, i), kSplits[i]));
  }
  return CheckByteLevel(steps->AsArray().back(), Item(steps_where, kSplits.size()), /*options_matter=*/true);
}

Status CheckNormalizer(const Value& root) {
  const Value* value = root.Find("normalizer");
  if (value == nullptr || value->is_null()) return OkStatus();
  DEEPINFER_RETURN_IF_ERROR(CheckObject(*value, "normalizer", {"type", "normalizers"}));
  DEEPINFER_RETURN_IF_ERROR(CheckString(*value, "normalizer", "type", "Sequence"));
  DEEPINFER_ASSIGN_OR_RETURN(const Value* steps, Member(*value, "normalizer", "normalizers"));
  if (steps->is_array() && steps->AsArray().empty()) return OkStatus();
  return DataLoss("must be an empty list: nothing is normalised", "normalizer.normalizers");
}

Status CheckPipeline(const Value& root) {
  DEEPINFER_RETURN_IF_ERROR(CheckObject(root, "",
                                        {"version", "truncation", "padding", "added_tokens", "normalizer",
                                         "pre_tokenizer", "post_processor", "decoder", "model"}));
  DEEPINFER_RETURN_IF_ERROR(CheckString(root, "", "version", "1.0"));
  DEEPINFER_RETURN_IF_ERROR(CheckNull(root, "", "truncation"));
  DEEPINFER_RETURN_IF_ERROR(CheckNull(root, "", "padding"));
  DEEPINFER_RETURN_IF_ERROR(CheckNormalizer(root));
  DEEPINFER_RETURN_IF_ERROR(CheckPreTokenizer(root));
  const Value* post_processor = root.Find("post_processor");
  if (post_processor != nullptr && !post_processor->is_null()) {
    DEEPINFER_RETURN_IF_ERROR(CheckByteLevel(*post_processor, "post_processor", /*options_matter=*/false));
  }
  DEEPINFER_ASSIGN_OR_RETURN(const Value* decoder, Member(root, "", "decoder"));
  return CheckByteLevel(*decoder, "decoder", /*options_matter=*/false);
}

Status CheckModelOptions(const Value& model) {
  DEEPINFER_RETURN_IF_ERROR(
      CheckObject(model, "model",
                  {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                   "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"}));
  DEEPINFER_RETURN_IF_ERROR(CheckString(model, "model", "type", "BPE"));
  DEEPINFER_RETURN_IF_ERROR(CheckNull(model, "model", "dropout"));
  DEEPINFER_RETURN_IF_ERROR(CheckNull(model, "model", "unk_token"));
  DEEPINFER_RETURN_IF_ERROR(CheckNull(model, "model", "continuing_subword_prefix", /*or_empty=*/true));
  DEEPINFER_RETURN_IF_ERROR(CheckNull(model, "model", "end_of_word_suffix", /*or_empty=*/true));
  DEEPINFER_RETURN_IF_ERROR(CheckFalse(model, "model", "fuse_unk", /*optional=*/true));
  DEEPINFER_RETURN_IF_ERROR(CheckFalse(model, "model", "byte_fallback", /*optional=*/true));
  return CheckFalse(model, "model", "ignore_merges", /*optional=*/true);
}

/// Vocabulary strings by id. The ids must be 0 … n-1, each once.
Result<std::vector<const std::string*>> ReadVocab(const Value& model) {
  const std::string where = "model.vocab";
  DEEPINFER_ASSIGN_OR_RETURN(const Value* vocab, Member(model, "model", "vocab"));
  if (!vocab->is_object()) return DataLoss("must be an object", where);
  const json::Object& entries = vocab->AsObject();
  std::vector<const std::string*> strings(entries.size(), nullptr);
  for (const auto& [token, value] : entries) {
    uint64_t id = 0;
    if (!value.GetUint64(&id))
      return DataLoss("the id of " + Quoted(token) + " is no unsigned integer", where);
    if (id >= entries.size()) {
      return DataLoss("id " + std::to_string(id) + " of " + Quoted(token) + " is outside 0 to " +
                          std::to_string(entries.size() - 1) + ": the ids have a gap",
                      where);
    }
    if (token.empty()) return DataLoss("id " + std::to_string(id) + " has an empty string", where);
    if (strings[id] != nullptr) {
      return DataLoss(
          "id " + std::to_string(id) + " is used by both " + Quoted(*strings[id]) + " and " + Quoted(token),
          where);
    }
    strings[id] = &token;
  }
  return strings;
}

Status BuildVocab(const std::vector<const std::string*>& strings, TokenizerSpec* spec) {
  if (strings.size() > size_t{kMaxBpeId} + 1) {
    return ResourceExhausted("more than " + std::to_string(kMaxBpeId + 1) + " tokens", "model.vocab");
  }
  spec->base_vocab_size = static_cast<int32_t>(strings.size());
  spec->byte_level_index.Reserve(strings.size());
  for (const std::string* token : strings) {
    const std::optional<std::string> bytes = BytesFromSymbols(*token);
    const int32_t id = spec->token_bytes.size();
    spec->token_bytes.Append(bytes ? *bytes : *token);
    spec->is_byte_level.push_back(bytes.has_value());
    if (bytes) spec->byte_level_index.Insert(spec->token_bytes, id);
  }
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    const auto id = spec->byte_level_index.Find(spec->token_bytes, std::string_view(&c, 1));
    if (!id)
      return DataLoss("byte " + std::to_string(byte) + " has no token, so not every text could be encoded",
                      "model.vocab");
    spec->byte_ids.push_back(*id);
  }
  return OkStatus();
}

/// The two halves of a merge rule, written as "left right" or ["left", "right"].
std::optional<std::pair<std::string_view, std::string_view>> MergeHalves(const Value& value) {
  if (value.is_string()) {
    const std::string_view text = value.AsString();
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos)
      return std::nullopt;
    return std::pair(text.substr(0, space), text.substr(space + 1));
  }
  if (!value.is_array() || value.AsArray().size() != 2) return std::nullopt;
  const Value &left = value.AsArray()[0], &right = value.AsArray()[1];
  if (!left.is_string() || !right.is_string()) return std::nullopt;
  return std::pair<std::string_view, std::string_view>(left.AsString(), right.AsString());
}

Result<Merge> ReadMerge(const Value& value, const std::string& where, const TokenizerSpec& spec) {
  const auto halves = MergeHalves(value);
  if (!halves) return DataLoss("must be two token strings", where);
  const std::optional<std::string> left = BytesFromSymbols(halves->first),
                                   right = BytesFromSymbols(halves->second);
  const auto find = [&](const std::optional<std::string>& bytes) {
    return bytes ? spec.byte_level_index.Find(spec.token_bytes, *bytes) : std::nullopt;
  };
  const auto left_id = find(left), right_id = find(right);
  if (!left_id || !right_id) {
    return DataLoss(
        "the token " + Quoted(left_id ? halves->second : halves->first) + " is not in model.vocab", where);
  }
  const auto result_id = find(*left + *right);
  if (!result_id) return DataLoss("the merged token is not in model.vocab", where);
  return Merge{*left_id, *right_id, *result_id};
}

Status BuildMerges(const Value& model, TokenizerSpec* spec) {
  const std::string where = "model.merges";
  DEEPINFER_ASSIGN_OR_RETURN(const Value* merges, Member(model, "model", "merges"));
  if (!merges->is_array()) return DataLoss("must be a list", where);
  std::unordered_set<uint64_t> pairs;
  for (size_t rank = 0; rank < merges->AsArray().size(); ++rank) {
    DEEPINFER_ASSIGN_OR_RETURN(const Merge merge,
                               ReadMerge(merges->AsArray()[rank], Item(where, rank), *spec));
    const uint64_t pair = static_cast<uint64_t>(merge.left) << 32 | static_cast<uint32_t>(merge.right);
    if (!pairs.insert(pair).second) return DataLoss("the same pair has an earlier rule", Item(where, rank));
    spec->merges.push_back(merge);
  }
  return OkStatus();
}

Result<AddedToken> ReadAddedToken(const Value& value, const std::string& where) {
  DEEPINFER_RETURN_IF_ERROR(CheckObject(
      value, where, {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}));
  for (const std::string_view key : {"single_word", "lstrip", "rstrip"}) {
    DEEPINFER_RETURN_IF_ERROR(CheckFalse(value, where, key, /*optional=*/false));
  }
  AddedToken token;
  DEEPINFER_ASSIGN_OR_RETURN(token.normalized, BoolMember(value, where, "normalized"));
  DEEPINFER_ASSIGN_OR_RETURN(token.special, BoolMember(value, where, "special"));
  DEEPINFER_ASSIGN_OR_RETURN(const Value* content, Member(value, where, "content"));
  if (!content->is_string() || content->AsString().empty()) {
    return DataLoss("must be a string that is not empty", Field(where, "content"));
  }
  if (content->AsString().size() > kMaxAddedTokenBytes) {
    return ResourceExhausted("is longer than " + std::to_string(kMaxAddedTokenBytes) + " bytes",
                             Field(where, "content"));
  }
  token.content = content->AsString();
  DEEPINFER_ASSIGN_OR_RETURN(const Value* id, Member(value, where, "id"));
  int64_t number = 0;
  if (!id->GetInt64(&number) || number < 0 || number > INT32_MAX) {
    return DataLoss("must be an integer from 0 to 2147483647", Field(where, "id"));
  }
  token.id = static_cast<int32_t>(number);
  return token;
}

/// An added token is either an entry of the vocabulary with the same text, or takes the next id after all others; the
/// libraries of the field number them in this way whatever the file says, so another id would mean other ids elsewhere.
Status PlaceAddedToken(const AddedToken& token, const std::string& where,
                       const std::unordered_map<std::string_view, int32_t>& vocab, TokenizerSpec* spec) {
  const auto known = vocab.find(token.content);
  const int32_t expected = known != vocab.end() ? known->second : spec->token_bytes.size();
  if (token.id != expected) {
    return DataLoss("the id of " + Quoted(token.content) + " must be " + std::to_string(expected) + ", not " +
                        std::to_string(token.id),
                    Field(where, "id"));
  }
  if (known == vocab.end()) {
    spec->token_bytes.Append(token.content);
  } else if (spec->token_bytes[token.id] != token.content) {
    return DataLoss("means other bytes as an entry of model.vocab than as literal text",
                    Field(where, "content"));
  }
  if (!spec->added.empty() && token.id <= spec->added.back().id) {
    return DataLoss("ids must ascend", Field(where, "id"));
  }
  spec->added.push_back(token);
  return OkStatus();
}

Status BuildAdded(const Value& root, const std::vector<const std::string*>& strings, TokenizerSpec* spec) {
  const std::string where = "added_tokens";
  DEEPINFER_ASSIGN_OR_RETURN(const Value* list, Member(root, "", where));
  if (!list->is_array()) return DataLoss("must be a list", where);
  std::unordered_map<std::string_view, int32_t> vocab;
  for (size_t id = 0; id < strings.size(); ++id) vocab.emplace(*strings[id], static_cast<int32_t>(id));
  std::unordered_set<std::string> contents;
  size_t total_bytes = 0;
  for (size_t i = 0; i < list->AsArray().size(); ++i) {
    const std::string item = Item(where, i);
    DEEPINFER_ASSIGN_OR_RETURN(const AddedToken token, ReadAddedToken(list->AsArray()[i], item));
    if (!contents.insert(token.content).second)
      return DataLoss("stands twice in the list", Field(item, "content"));
    total_bytes += token.content.size();
    if (total_bytes > kMaxAddedTotalBytes) {
      return ResourceExhausted("the texts together exceed " + std::to_string(kMaxAddedTotalBytes) + " bytes",
                               where);
    }
    DEEPINFER_RETURN_IF_ERROR(PlaceAddedToken(token, item, vocab, spec));
  }
  return OkStatus();
}

}  // namespace

Result<TokenizerSpec> ParseTokenizerJson(std::string_view text) {
  json::ParseLimits limits;
  limits.max_bytes = kMaxTokenizerBytes;
  limits.max_values = kMaxTokenizerValues;
  DEEPINFER_ASSIGN_OR_RETURN(const Value root, json::Parse(text, limits));
  if (!root.is_object()) return DataLoss("the file must hold a JSON object");
  DEEPINFER_RETURN_IF_ERROR(CheckPipeline(root));
  DEEPINFER_ASSIGN_OR_RETURN(const Value* model, Member(root, "", "model"));
  DEEPINFER_RETURN_IF_ERROR(CheckModelOptions(*model));
  TokenizerSpec spec;
  DEEPINFER_ASSIGN_OR_RETURN(const std::vector<const std::string*> strings, ReadVocab(*model));
  DEEPINFER_RETURN_IF_ERROR(BuildVocab(strings, &spec));
  DEEPINFER_RETURN_IF_ERROR(BuildMerges(*model, &spec));
  DEEPINFER_RETURN_IF_ERROR(BuildAdded(root, strings, &spec));
  return spec;
}

}  // namespace deepinfer
