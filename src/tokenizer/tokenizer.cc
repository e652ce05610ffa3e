#include "tokenizer/tokenizer.h"

#include <algorithm>

#include "base/file.h"
#include "tokenizer/byte_symbols.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/unicode.h"

namespace deepinfer {
namespace {

constexpr size_t kMaxTextBytes = INT32_MAX;  // positions in a piece are 32-bit numbers

}  // namespace

/// One call of Encode or EncodeRuns: cuts the text at added tokens, the rest into pieces, and encodes those.
class Tokenizer::Encoder {
 public:
  Encoder(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options)
      : tokenizer_(tokenizer), text_(text), options_(options) {
    if (text.size() >= kMinBytesForRecent) recent_.Allocate();
  }

  /// Allows added tokens within these bytes. Ranges come in ascending order; those that touch count as one.
  void Trust(size_t begin, size_t end) {
    if (begin == end) return;
    if (!trusted_.empty() && trusted_.back().second == begin) {
      trusted_.back().second = end;
    } else {
      trusted_.emplace_back(begin, end);
    }
  }

  /// Marks the part as a token. Parts come in ascending order; not together with Trust.
  void Mark(const TokenSpan& token) { matches_.push_back({token.begin, token.end, token.id}); }

  Result<std::vector<int32_t>> Run() {
    const size_t max_bytes = std::min(options_.max_bytes, kMaxTextBytes);
    if (text_.size() > max_bytes) {
      return ResourceExhausted("the text has " + std::to_string(text_.size()) +
                               " bytes, more than the limit of " + std::to_string(max_bytes));
    }
    if (const size_t bad = unicode::FindInvalidUtf8(text_); bad != std::string_view::npos) {
      return InvalidArgument("the text is not valid UTF-8", "byte " + std::to_string(bad));
    }
    for (const auto& [begin, end] : trusted_) FindAdded(begin, end, 0);
    size_t done = 0;
    for (const AddedTokenSet::Match& match : matches_) {
      DEEPINFER_RETURN_IF_ERROR(EncodeOrdinary(done, match.begin));
      ids_.push_back(match.id);
      done = match.end;
    }
    DEEPINFER_RETURN_IF_ERROR(EncodeOrdinary(done, text_.size()));
    return std::move(ids_);
  }

 private:
  /// Appends the matches within a range in order: those of `pass`, and between them those of the later passes.
  void FindAdded(size_t begin, size_t end, size_t pass) {
    if (pass == tokenizer_.added_by_pass_.size()) return;
    const AddedTokenSet& set = tokenizer_.added_by_pass_[pass];
    const std::string_view range = text_.substr(0, end);
    while (const auto match = set.Find(range, begin)) {
      FindAdded(begin, match->begin, pass + 1);
      matches_.push_back(*match);
      begin = match->end;
    }
    FindAdded(begin, end, pass + 1);
  }

  Status EncodeOrdinary(size_t begin, size_t end) {
    PieceScanner pieces(text_.substr(begin, end - begin));
    for (std::string_view piece; pieces.Next(&piece);) {
      EncodePiece(piece);
      if (ids_.size() > options_.max_tokens) return TooManyTokens();
    }
    return ids_.size() > options_.max_tokens ? TooManyTokens() : OkStatus();
  }

  /// Words repeat: the ids of a piece seen lately are copied.
  void EncodePiece(std::string_view piece) {
    const uint64_t hash = HashBytes(piece);
    if (!recent_.allocated()) return EncodeNewPiece(piece, hash);
    if (recent_.Append(piece, hash, &ids_)) return;
    const size_t first_id = ids_.size();
    EncodeNewPiece(piece, hash);
    recent_.Store(piece, hash, std::span(ids_).subspan(first_id));
  }

  void EncodeNewPiece(std::string_view piece, uint64_t hash) {
    // Most pieces are one token; then the merges need not be replayed.
    if (const auto id = FindWhole(piece, hash)) {
      ids_.push_back(*id);
    } else {
      tokenizer_.bpe_.Encode(piece, &scratch_, &ids_);
    }
  }

  std::optional<int32_t> FindWhole(std::string_view piece, uint64_t hash) const {
    if (piece.size() <= ShortTokenIndex::kMaxBytes) return tokenizer_.short_tokens_.Find(piece, hash);
    const TokenizerSpec& spec = tokenizer_.spec_;
    const auto id = spec.byte_level_index.Find(spec.token_bytes, piece, hash);
    return id && tokenizer_.encodes_to_self_[static_cast<size_t>(*id)] ? id : std::nullopt;
  }

  Status TooManyTokens() const {
    return ResourceExhausted("the text has more than " + std::to_string(options_.max_tokens) + " tokens");
  }

  static constexpr size_t kMinBytesForRecent = 4096;  // not worth filling for short texts

  const Tokenizer& tokenizer_;
  std::string_view text_;
  const EncodeOptions& options_;
  std::vector<std::pair<size_t, size_t>> trusted_;
  std::vector<AddedTokenSet::Match> matches_;
  Bpe::Scratch scratch_;
  RecentPieces recent_;
  std::vector<int32_t> ids_;
};

Result<std::shared_ptr<const Tokenizer>> Tokenizer::Load(const std::string& path) {
  DEEPINFER_ASSIGN_OR_RETURN(const std::string text,
                             ReadFile(path, kMaxTokenizerBytes, StatusCode::kDataLoss));
  auto result = FromJson(text);
  if (!result.ok()) return std::move(result).status().Within(path);
  return result;
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::FromJson(std::string_view json) {
  DEEPINFER_ASSIGN_OR_RETURN(TokenizerSpec spec, ParseTokenizerJson(json));
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(spec)));
}

Tokenizer::Tokenizer(TokenizerSpec spec) : spec_(std::move(spec)), bpe_(spec_.byte_ids, spec_.merges) {
  FindWholeTokens();
  IndexAddedTokens();
}

void Tokenizer::FindWholeTokens() {
  Bpe::Scratch scratch;
  std::vector<int32_t> ids;
  encodes_to_self_.resize(static_cast<size_t>(spec_.base_vocab_size));
  short_tokens_.Reserve(static_cast<size_t>(spec_.base_vocab_size));
  for (int32_t id = 0; id < spec_.base_vocab_size; ++id) {
    if (!spec_.is_byte_level[static_cast<size_t>(id)]) continue;
    ids.clear();
    bpe_.Encode(spec_.token_bytes[id], &scratch, &ids);
    if (ids.size() != 1 || ids[0] != id) continue;
    encodes_to_self_[static_cast<size_t>(id)] = true;
    const std::string_view bytes = spec_.token_bytes[id];
    if (bytes.size() <= ShortTokenIndex::kMaxBytes) short_tokens_.Insert(bytes, id);
  }
}

void Tokenizer::IndexAddedTokens() {
  flags_.resize(static_cast<size_t>(vocab_size()));
  for (const AddedToken& token : spec_.added) {
    flags_[static_cast<size_t>(token.id)] = token.special ? kAddedFlag | kSpecialFlag : kAddedFlag;
    added_by_pass_[token.normalized ? 1 : 0].Insert(token.content, token.id);
    const auto role = std::find(kTokenRoleText.begin(), kTokenRoleText.end(), token.content);
    if (role != kTokenRoleText.end())
      role_ids_[static_cast<size_t>(role - kTokenRoleText.begin())] = token.id;
    if (NeverValidOutput(token.content)) never_valid_output_.push_back(token.id);
  }
  for (int32_t id = 0; id < vocab_size(); ++id) {
    const bool byte_level = id < spec_.base_vocab_size && spec_.is_byte_level[static_cast<size_t>(id)];
    if (!byte_level) literal_ids_.emplace_back(spec_.token_bytes[id], id);
  }
  std::sort(literal_ids_.begin(), literal_ids_.end());
}

Result<std::vector<int32_t>> Tokenizer::Encode(std::string_view utf8, const EncodeOptions& options) const {
  Encoder encoder(*this, utf8, options);
  if (options.added_tokens) encoder.Trust(0, utf8.size());
  return encoder.Run();
}

Result<std::vector<int32_t>> Tokenizer::EncodeRuns(std::span<const TextRun> runs,
                                                   const EncodeOptions& options) const {
  std::string text;
  for (const TextRun& run : runs) {
    if (run.text.size() > options.max_bytes - text.size()) {
      return ResourceExhausted("the text has more than " + std::to_string(options.max_bytes) + " bytes");
    }
    text += run.text;
  }
  Encoder encoder(*this, text, options);
  size_t begin = 0;
  for (const TextRun& run : runs) {
    if (run.trusted) encoder.Trust(begin, begin + run.text.size());
    begin += run.text.size();
  }
  return encoder.Run();
}

Result<std::vector<int32_t>> Tokenizer::EncodeWithTokens(std::string_view utf8,
                                                         std::span<const TokenSpan> tokens,
                                                         const EncodeOptions& options) const {
  Encoder encoder(*this, utf8, options);
  for (const TokenSpan& token : tokens) encoder.Mark(token);
  return encoder.Run();
}

std::string Tokenizer::Decode(std::span<const int32_t> ids) const {
  std::string bytes;
  for (const int32_t id : ids) bytes += TokenBytes(id);
  return bytes;
}

std::string_view Tokenizer::TokenBytes(int32_t id) const {
  return id >= 0 && id < vocab_size() ? spec_.token_bytes[id] : std::string_view();
}

std::string Tokenizer::TokenString(int32_t id) const {
  const std::string_view bytes = TokenBytes(id);
  const bool byte_level =
      id >= 0 && id < spec_.base_vocab_size && spec_.is_byte_level[static_cast<size_t>(id)];
  return byte_level ? SymbolsFromBytes(bytes) : std::string(bytes);
}

std::optional<int32_t> Tokenizer::TokenToId(std::string_view token) const {
  const auto it = std::lower_bound(literal_ids_.begin(), literal_ids_.end(), token,
                                   [](const auto& entry, std::string_view key) { return entry.first < key; });
  if (it != literal_ids_.end() && it->first == token) return it->second;
  const std::optional<std::string> bytes = BytesFromSymbols(token);
  return bytes ? spec_.byte_level_index.Find(spec_.token_bytes, *bytes) : std::nullopt;
}

std::vector<std::pair<size_t, size_t>> Tokenizer::TokenOffsets(std::span<const int32_t> ids) const {
  std::vector<std::pair<size_t, size_t>> offsets;
  offsets.reserve(ids.size());
  size_t begin = 0;
  for (const int32_t id : ids) {
    const size_t end = begin + TokenBytes(id).size();
    offsets.emplace_back(begin, end);
    begin = end;
  }
  return offsets;
}

}  // namespace deepinfer
