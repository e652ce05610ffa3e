#include "cli/batch_request.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "cli/chat_request.h"
#include "cli/suggest.h"
#include "model/layer_plan.h"
#include "sampling/sampling.h"

namespace deepinfer::cli {
namespace {

constexpr size_t kMaxStopIds = 1000;

std::string_view TypeName(const json::Value& value) {
  switch (value.type()) {
    case json::Type::kNull: return "null";
    case json::Type::kBool: return "a boolean";
    case json::Type::kInt:
    case json::Type::kUint: return "an integer";
    case json::Type::kDouble: return "a number";
    case json::Type::kString: return "a text";
    case json::Type::kArray: return "an array";
    case json::Type::kObject: return "an object";
  }
  return "something else";
}

Status WrongType(std::string_view key, std::string_view wanted, const json::Value& value) {
  return InvalidArgument(fmt::format("{} must be {}, not {}", key, wanted, TypeName(value)),
                         std::string(key));
}

Result<int64_t> IntegerIn(std::string_view key, const json::Value& value, int64_t min, int64_t max) {
  int64_t number = 0;
  if (!value.is_integer()) return WrongType(key, fmt::format("an integer from {} to {}", min, max), value);
  if (!value.GetInt64(&number) || number < min || number > max) {
    return InvalidArgument(fmt::format("{} must be an integer from {} to {}", key, min, max),
                           std::string(key));
  }
  return number;
}

Result<bool> Boolean(std::string_view key, const json::Value& value) {
  if (!value.is_bool()) return WrongType(key, "true or false", value);
  return value.AsBool();
}

/// Reads members of a line into a BatchRequest, one function a field.
class LineParser {
 public:
  LineParser(const BatchDefaults& defaults, BatchRequest* out) : defaults_(defaults), out_(*out) {}

  Status Set(const std::string& key, const json::Value& value);
  /// After the last field.
  Status Finish();
  Status UnknownField(const std::string& key) const;

 private:
  using Setter = Status (LineParser::*)(const json::Value& value);
  struct Field {
    std::string_view name;
    Setter set;
  };
  static std::span<const Field> Table();

  Status Id(const json::Value&) { return OkStatus(); }
  Status Prompt(const json::Value& value);
  Status PromptIds(const json::Value& value);
  Status Special(const json::Value& value);
  Status LogitBias(const json::Value& value);
  Status MaxTokens(const json::Value& value);
  Status Stop(const json::Value& value);
  Status StopId(const json::Value& value);
  Status IgnoreEos(const json::Value& value);
  Status N(const json::Value& value);
  Status Logprobs(const json::Value& value);
  Status TopLogprobs(const json::Value& value);
  Status Seed(const json::Value& value);
  Status Prefill(const json::Value& value);
  Status KeepTokens(const json::Value& value);
  Result<int32_t> TokenId(std::string_view key, const json::Value& value) const;

  const BatchDefaults& defaults_;
  BatchRequest& out_;
  bool logprobs_as_in_chat_ = false;  // `logprobs: true`, and the number of the best in `top_logprobs`
  std::optional<int> top_logprobs_;
};

std::span<const LineParser::Field> LineParser::Table() {
  static constexpr std::array<Field, 15> kFields = {{
      {"id", &LineParser::Id},
      {"prompt", &LineParser::Prompt},
      {"prompt_ids", &LineParser::PromptIds},
      {"special", &LineParser::Special},
      {"logit_bias", &LineParser::LogitBias},
      {"max_tokens", &LineParser::MaxTokens},
      {"stop", &LineParser::Stop},
      {"stop_id", &LineParser::StopId},
      {"ignore_eos", &LineParser::IgnoreEos},
      {"n", &LineParser::N},
      {"logprobs", &LineParser::Logprobs},
      {"top_logprobs", &LineParser::TopLogprobs},
      {"seed", &LineParser::Seed},
      {"prefill", &LineParser::Prefill},
      {"keep_tokens", &LineParser::KeepTokens},
  }};
  return kFields;
}

Status LineParser::Set(const std::string& key, const json::Value& value) {
  if (const sampling::FieldSpec* field = sampling::FindField(key)) {
    if (value.is_null()) return OkStatus();
    if (!value.is_number() || (field->integer && !value.is_integer()))
      return WrongType(key, sampling::RangeText(*field), value);
    return sampling::SetField(key, value.AsDouble(), &out_.base.request.sampling);
  }
  const auto table = Table();
  const auto field = std::find_if(table.begin(), table.end(), [&](const Field& f) { return f.name == key; });
  if (field == table.end()) return UnknownField(key);
  return value.is_null() ? OkStatus() : (this->*field->set)(value);
}

Status LineParser::UnknownField(const std::string& key) const {
  std::vector<std::string> names;
  for (const Field& field : Table()) names.emplace_back(field.name);
  for (const sampling::FieldSpec& field : sampling::Fields()) names.emplace_back(field.name);
  for (const std::string_view field : ChatFields()) names.emplace_back(field);
  const std::string nearest = Nearest(key, names);
  std::string shown = key.size() > 80 ? key.substr(0, 80) + "…" : key;
  std::string message = fmt::format("unknown field \"{}\"", shown);
  if (!nearest.empty()) message += fmt::format("; did you mean \"{}\"?", nearest);
  return InvalidArgument(std::move(message), std::move(shown));
}

Status LineParser::Prompt(const json::Value& value) {
  if (!value.is_string()) return WrongType("prompt", "a text", value);
  out_.prompt = value.AsString();
  return OkStatus();
}

Result<int32_t> LineParser::TokenId(std::string_view key, const json::Value& value) const {
  DEEPINFER_ASSIGN_OR_RETURN(const int64_t id, IntegerIn(key, value, 0, defaults_.vocab_size - 1));
  return static_cast<int32_t>(id);
}

Status LineParser::PromptIds(const json::Value& value) {
  if (!value.is_array()) return WrongType("prompt_ids", "an array of token ids", value);
  std::vector<int32_t> ids;
  ids.reserve(value.AsArray().size());
  for (const json::Value& entry : value.AsArray()) {
    DEEPINFER_ASSIGN_OR_RETURN(const int32_t id, TokenId("prompt_ids", entry));
    ids.push_back(id);
  }
  out_.prompt_ids = std::move(ids);
  return OkStatus();
}

Status LineParser::Special(const json::Value& value) {
  DEEPINFER_ASSIGN_OR_RETURN(out_.special, Boolean("special", value));
  return OkStatus();
}

Status LineParser::LogitBias(const json::Value& value) {
  if (!value.is_object()) return WrongType("logit_bias", "an object of token ids and numbers", value);
  auto& biases = out_.base.request.sampling.logit_bias;
  biases.clear();
  for (const auto& [key, entry] : value.AsObject()) {
    int64_t id = 0;
    if (!ParseInteger(key, &id))
      return InvalidArgument(fmt::format("logit_bias: \"{}\" is no token id", key.substr(0, 40)),
                             "logit_bias");
    if (!entry.is_number()) return WrongType("logit_bias", "an object of token ids and numbers", entry);
    DEEPINFER_RETURN_IF_ERROR(sampling::CheckLogitBias(id, entry.AsDouble(), defaults_.vocab_size));
    biases.emplace_back(static_cast<int32_t>(id), static_cast<float>(entry.AsDouble()));
  }
  return OkStatus();
}

Status LineParser::MaxTokens(const json::Value& value) {
  DEEPINFER_ASSIGN_OR_RETURN(out_.base.request.max_tokens,
                             IntegerIn("max_tokens", value, 1, int64_t{1} << 30));
  return OkStatus();
}

Status LineParser::Stop(const json::Value& value) {
  std::vector<std::string> stops;
  const json::Array one = {value};
  for (const json::Value& entry : value.is_array() ? value.AsArray() : one) {
    if (!entry.is_string()) return WrongType("stop", "a text or an array of texts", entry);
    if (entry.AsString().empty()) return InvalidArgument("stop must not be empty", "stop");
    stops.push_back(entry.AsString());
  }
  if (stops.size() > kMaxStopStrings)
    return InvalidArgument(fmt::format("stop takes at most {} texts", kMaxStopStrings), "stop");
  out_.base.request.stop = std::move(stops);
  return OkStatus();
}

Status LineParser::StopId(const json::Value& value) {
  std::vector<int32_t> ids;
  const json::Array one = {value};
  for (const json::Value& entry : value.is_array() ? value.AsArray() : one) {
    DEEPINFER_ASSIGN_OR_RETURN(const int32_t id, TokenId("stop_id", entry));
    ids.push_back(id);
  }
  if (ids.size() > kMaxStopIds)
    return InvalidArgument(fmt::format("stop_id takes at most {} ids", kMaxStopIds), "stop_id");
  out_.base.request.stop_ids = std::move(ids);
  return OkStatus();
}

Status LineParser::IgnoreEos(const json::Value& value) {
  DEEPINFER_ASSIGN_OR_RETURN(out_.base.request.ignore_eos, Boolean("ignore_eos", value));
  return OkStatus();
}

Status LineParser::N(const json::Value& value) {
  DEEPINFER_ASSIGN_OR_RETURN(out_.base.n, IntegerIn("n", value, 1, kMaxSamples));
  out_.has_n = true;
  return OkStatus();
}

Status LineParser::Logprobs(const json::Value& value) {
  if (value.is_bool()) {
    logprobs_as_in_chat_ = value.AsBool();
    out_.base.request.logprobs = value.AsBool() ? 0 : -1;
    return OkStatus();
  }
  DEEPINFER_ASSIGN_OR_RETURN(const int64_t count, IntegerIn("logprobs", value, 0, kMaxLogprobs));
  out_.base.request.logprobs = static_cast<int>(count);
  return OkStatus();
}

Status LineParser::TopLogprobs(const json::Value& value) {
  constexpr int64_t kMost = 20;  // spec: recipe.md §7
  DEEPINFER_ASSIGN_OR_RETURN(const int64_t count, IntegerIn("top_logprobs", value, 0, kMost));
  top_logprobs_ = static_cast<int>(count);
  return OkStatus();
}

Status LineParser::Finish() {
  if (!top_logprobs_) return OkStatus();
  if (!logprobs_as_in_chat_) return InvalidArgument("top_logprobs needs logprobs: true", "top_logprobs");
  out_.base.request.logprobs = *top_logprobs_;
  return OkStatus();
}

Status LineParser::Seed(const json::Value& value) {
  uint64_t seed = 0;
  if (!value.is_integer()) return WrongType("seed", "an integer from 0 to 18446744073709551615", value);
  if (!value.GetUint64(&seed))
    return InvalidArgument("seed must be an integer from 0 to 18446744073709551615", "seed");
  out_.base.seed = seed;
  return OkStatus();
}

Status LineParser::Prefill(const json::Value& value) {
  if (!value.is_string()) return WrongType("prefill", "full, exact_halo or bounded_replay", value);
  const Result<model::PrefillMode> mode = model::ParsePrefillMode(value.AsString());
  if (!mode.ok()) return Status(mode.status().code(), mode.status().message(), "prefill");
  out_.base.request.prefill = *mode;
  return OkStatus();
}

Status LineParser::KeepTokens(const json::Value& value) {
  DEEPINFER_ASSIGN_OR_RETURN(out_.base.request.keep_tokens,
                             IntegerIn("keep_tokens", value, 0, int64_t{1} << 20));
  return OkStatus();
}

}  // namespace

Result<json::Value> LineId(const json::Value& line) {
  const json::Value* id = line.Find("id");
  if (id == nullptr || id->is_null()) return json::Value();
  if (!id->is_string() && !id->is_integer()) return WrongType("id", "a text or an integer", *id);
  return *id;
}

json::ParseLimits LineLimits() {
  json::ParseLimits limits;
  limits.max_bytes = kMaxLineBytes;
  limits.max_depth = 128;
  return limits;
}

std::string PromptField(const BatchRequest& request) {
  return request.chat ? "messages" : request.prompt ? "prompt" : "prompt_ids";
}

Result<BatchRequest> ParseBatchRequest(json::Value line, const BatchDefaults& defaults) {
  BatchRequest out;
  out.base = defaults.base;
  out.has_n = defaults.has_n;
  DEEPINFER_ASSIGN_OR_RETURN(json::Value body, TakeChatFields(&line));
  LineParser parser(defaults, &out);
  for (const auto& [key, value] : line.AsObject()) DEEPINFER_RETURN_IF_ERROR(parser.Set(key, value));
  DEEPINFER_RETURN_IF_ERROR(parser.Finish());
  const bool has_messages = body.Find("messages") != nullptr;
  const int forms = (has_messages ? 1 : 0) + (out.prompt ? 1 : 0) + (out.prompt_ids ? 1 : 0);
  if (forms != 1) {
    return InvalidArgument(forms == 0 ? "one of messages, prompt and prompt_ids is needed"
                                      : "messages, prompt and prompt_ids exclude each other");
  }
  if (out.special && !out.prompt) return InvalidArgument("special belongs to prompt", "special");
  if (has_messages) {
    ApplyPromptSettings(defaults.prompt, Precedence::kBody, &body);
    DEEPINFER_ASSIGN_OR_RETURN(out.chat, ParseChat(std::move(body)));
    return out;
  }
  for (const char* field : {"tools", "tool_choice", "response_format"}) {
    if (body.Find(field) != nullptr)
      return InvalidArgument(fmt::format("{} belongs to messages", field), field);
  }
  return out;
}

Result<Prompt> LinePrompt(const Tokenizer& tokenizer, BatchRequest& request,
                          recipe::HistoryThinking history_thinking) {
  if (request.chat) return ChatPrompt(tokenizer, *request.chat, history_thinking);
  if (request.prompt) return TextPrompt(tokenizer, *request.prompt, request.special);
  return IdsPrompt(std::move(*request.prompt_ids));
}

Status ApplySamplingFields(const json::Value& fields, int64_t vocab_size, BaseRequest* base, bool* has_n) {
  static constexpr std::array<std::string_view, 4> kPromptFields = {"id", "prompt", "prompt_ids", "special"};
  BatchDefaults defaults;
  defaults.vocab_size = vocab_size;
  BatchRequest out;
  out.base = *base;
  LineParser parser(defaults, &out);
  for (const auto& [key, value] : fields.AsObject()) {
    const bool is_prompt = std::find(kPromptFields.begin(), kPromptFields.end(), key) != kPromptFields.end();
    DEEPINFER_RETURN_IF_ERROR(is_prompt ? parser.UnknownField(key) : parser.Set(key, value));
  }
  DEEPINFER_RETURN_IF_ERROR(parser.Finish());
  *base = std::move(out.base);
  *has_n = out.has_n;
  return OkStatus();
}

uint64_t LineIdentity::Seed() const {
  std::string text(input.begin(), input.end());
  for (int i = 0; i < 8; ++i) text += static_cast<char>(static_cast<uint64_t>(number) >> (8 * i));
  const Sha256Digest hash = Sha256Of(text);
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i) value = value << 8 | hash[i];
  return value >> 11;
}

std::string LineIdentity::Id(std::string_view purpose) const {
  return ToHex(Sha256Of(fmt::format("{} {} {}", ToHex(input), number, purpose))).substr(0, 32);
}

}  // namespace deepinfer::cli
