#include "cli/batch_request.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

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
  Status UnknownField(const std::string& key) const;

 private:
  using Setter = Status (LineParser::*)(const json::Value& value);
  struct Field {
    std::string_view name;
    Setter set;
  };
  static std::span<const Field> Table();

  Status Id(const json::Value&) { return OkStatus(); }
  Status Messages(const json::Value& value);
  Status Prompt(const json::Value& value);
  Status PromptIds(const json::Value& value);
  Status Special(const json::Value& value);
  Status Tools(const json::Value& value);
  Status ResponseFormat(const json::Value& value);
  Status Thinking(const json::Value& value);
  Status Effort(const json::Value& value);
  Status LogitBias(const json::Value& value);
  Status MaxTokens(const json::Value& value);
  Status Stop(const json::Value& value);
  Status StopId(const json::Value& value);
  Status IgnoreEos(const json::Value& value);
  Status N(const json::Value& value);
  Status Logprobs(const json::Value& value);
  Status Seed(const json::Value& value);
  Status Prefill(const json::Value& value);
  Status KeepTokens(const json::Value& value);
  Result<int32_t> TokenId(std::string_view key, const json::Value& value) const;

  const BatchDefaults& defaults_;
  BatchRequest& out_;
};

std::span<const LineParser::Field> LineParser::Table() {
  static constexpr std::array<Field, 19> kFields = {{
      {"id", &LineParser::Id},
      {"messages", &LineParser::Messages},
      {"prompt", &LineParser::Prompt},
      {"prompt_ids", &LineParser::PromptIds},
      {"special", &LineParser::Special},
      {"tools", &LineParser::Tools},
      {"response_format", &LineParser::ResponseFormat},
      {"thinking", &LineParser::Thinking},
      {"effort", &LineParser::Effort},
      {"logit_bias", &LineParser::LogitBias},
      {"max_tokens", &LineParser::MaxTokens},
      {"stop", &LineParser::Stop},
      {"stop_id", &LineParser::StopId},
      {"ignore_eos", &LineParser::IgnoreEos},
      {"n", &LineParser::N},
      {"logprobs", &LineParser::Logprobs},
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
  const std::string nearest = Nearest(key, names);
  std::string shown = key.size() > 80 ? key.substr(0, 80) + "…" : key;
  std::string message = fmt::format("unknown field \"{}\"", shown);
  if (!nearest.empty()) message += fmt::format("; did you mean \"{}\"?", nearest);
  return InvalidArgument(std::move(message), std::move(shown));
}

Status LineParser::Messages(const json::Value& value) {
  DEEPINFER_ASSIGN_OR_RETURN(out_.messages, recipe::plain::ParseMessages(value));
  return OkStatus();
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

Status LineParser::Tools(const json::Value& value) {
  if (!value.is_array()) return WrongType("tools", "an array", value);
  if (value.AsArray().empty()) return OkStatus();
  return Unavailable("tools come with the recipe library, which this version does not have yet", "tools");
}

Status LineParser::ResponseFormat(const json::Value& value) {
  if (!value.is_object()) return WrongType("response_format", "an object", value);
  const json::Value* type = value.Find("type");
  if (type != nullptr && type->is_string() && type->AsString() == "text") return OkStatus();
  return Unavailable("response formats come with the recipe library, which this version does not have yet",
                     "response_format");
}

Status LineParser::Thinking(const json::Value& value) {
  if (value.is_string() && (value.AsString() == "on" || value.AsString() == "off")) {
    out_.thinking = value.AsString() == "on";
    return OkStatus();
  }
  if (!value.is_bool()) return WrongType("thinking", "true, false, \"on\" or \"off\"", value);
  out_.thinking = value.AsBool();
  return OkStatus();
}

Status LineParser::Effort(const json::Value& value) {
  if (!value.is_integer() && !value.is_string()) return WrongType("effort", "1 to 100 or a name", value);
  const Result<int> effort =
      recipe::plain::ParseEffort(value.is_string() ? value.AsString() : json::Serialize(value));
  if (!effort.ok()) return Status(effort.status().code(), effort.status().message(), "effort");
  out_.effort = *effort;
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
  DEEPINFER_ASSIGN_OR_RETURN(const int64_t count, IntegerIn("logprobs", value, 0, kMaxLogprobs));
  out_.base.request.logprobs = static_cast<int>(count);
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

std::string PromptField(const BatchRequest& request) {
  return request.messages ? "messages" : request.prompt ? "prompt" : "prompt_ids";
}

bool IsOpenAiBatchLine(const json::Value& line) {
  return line.Find("custom_id") != nullptr || line.Find("url") != nullptr || line.Find("body") != nullptr;
}

Result<BatchRequest> ParseBatchRequest(const json::Value& line, const BatchDefaults& defaults) {
  BatchRequest out;
  out.base = defaults.base;
  out.has_n = defaults.has_n;
  out.thinking = defaults.prompt.thinking;
  out.effort = defaults.prompt.effort;
  LineParser parser(defaults, &out);
  for (const auto& [key, value] : line.AsObject()) DEEPINFER_RETURN_IF_ERROR(parser.Set(key, value));
  const int forms = (out.messages ? 1 : 0) + (out.prompt ? 1 : 0) + (out.prompt_ids ? 1 : 0);
  if (forms != 1) {
    return InvalidArgument(forms == 0 ? "one of messages, prompt and prompt_ids is needed"
                                      : "messages, prompt and prompt_ids exclude each other");
  }
  if (out.special && !out.prompt) return InvalidArgument("special belongs to prompt", "special");
  return out;
}

Status ApplySamplingFields(const json::Value& fields, int64_t vocab_size, BaseRequest* base, bool* has_n) {
  static constexpr std::array<std::string_view, 9> kPromptFields = {
      "id", "messages", "prompt", "prompt_ids", "special", "tools", "response_format", "thinking", "effort"};
  BatchDefaults defaults;
  defaults.vocab_size = vocab_size;
  BatchRequest out;
  out.base = *base;
  LineParser parser(defaults, &out);
  for (const auto& [key, value] : fields.AsObject()) {
    const bool is_prompt = std::find(kPromptFields.begin(), kPromptFields.end(), key) != kPromptFields.end();
    DEEPINFER_RETURN_IF_ERROR(is_prompt ? parser.UnknownField(key) : parser.Set(key, value));
  }
  *base = std::move(out.base);
  *has_n = out.has_n;
  return OkStatus();
}

uint64_t LineSeed(const Sha256Digest& digest, int64_t line_number) {
  std::string text(digest.begin(), digest.end());
  for (int i = 0; i < 8; ++i) text += static_cast<char>(static_cast<uint64_t>(line_number) >> (8 * i));
  const Sha256Digest hash = Sha256Of(text);
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i) value = value << 8 | hash[i];
  return value >> 11;
}

}  // namespace deepinfer::cli
