#include "engine/generation_config.h"

#include <cmath>

#include <fmt/format.h>

#include "base/json.h"

namespace deepinfer {
namespace {

constexpr char kFileName[] = "generation_config.json";
constexpr size_t kMaxFileBytes = size_t{1} << 20;

Status Wrong(std::string_view key, std::string_view what) {
  return DataLoss(std::string(what), std::string(key));
}

Result<int32_t> ReadId(std::string_view key, const json::Value& value, const ModelConfig& config) {
  int64_t id = 0;
  if (value.GetInt64(&id) && id >= 0 && id < config.vocab_size) return static_cast<int32_t>(id);
  return Wrong(key, fmt::format("must be a token id in [0, {}]", config.vocab_size - 1));
}

/// One id or a list of them.
Status ReadEos(const json::Value& value, const ModelConfig& config, GenerationDefaults* out) {
  const json::Array single = {value};
  const json::Array& ids = value.is_array() ? value.AsArray() : single;
  if (ids.empty()) return Wrong("eos_token_id", "must name at least one token id");
  out->eos_ids.clear();
  for (const json::Value& id : ids) {
    out->eos_ids.emplace_back();
    DEEPINFER_ASSIGN_OR_RETURN(out->eos_ids.back(), ReadId("eos_token_id", id, config));
  }
  return OkStatus();
}

Status ReadSamplingField(const sampling::FieldSpec& field, const json::Value& value,
                         GenerationDefaults* out) {
  if (!value.is_number()) return Wrong(field.name, fmt::format("must be {}", sampling::RangeText(field)));
  const Status status = sampling::SetField(field.name, value.AsDouble(), &out->sampling);
  return status.ok() ? OkStatus() : DataLoss(status.message(), std::string(field.name));
}

Status ReadMember(const std::string& key, const json::Value& value, const ModelConfig& config,
                  GenerationDefaults* out) {
  if (const sampling::FieldSpec* field = sampling::FindField(key)) {
    return ReadSamplingField(*field, value, out);
  }
  if (key == "eos_token_id") return ReadEos(value, config, out);
  if (key == "bos_token_id" || key == "pad_token_id") return ReadId(key, value, config).status();
  if (key == "max_new_tokens") {
    if (!value.GetInt64(&out->max_tokens) || out->max_tokens < 1) {
      return Wrong(key, "must be an integer of at least 1");
    }
  }
  if (key == "do_sample" && !value.is_bool()) return Wrong(key, "must be true or false");
  return OkStatus();
}

}  // namespace

GenerationDefaults DefaultsWithoutFile(const ModelConfig& config) {
  GenerationDefaults out;
  out.eos_ids = {config.eos_token_id};
  return out;
}

Result<GenerationDefaults> ParseGenerationConfig(std::string_view text, const ModelConfig& config) {
  DEEPINFER_ASSIGN_OR_RETURN(const json::Value root,
                             json::Parse(text, {.max_bytes = kMaxFileBytes, .max_depth = 8}));
  if (!root.is_object()) return DataLoss("must be an object");
  GenerationDefaults out = DefaultsWithoutFile(config);
  for (const auto& [key, value] : root.AsObject()) {
    if (!value.is_null()) DEEPINFER_RETURN_IF_ERROR(ReadMember(key, value, config, &out));
  }
  // A file that switches sampling off may still carry a temperature for those who switch it on.
  const json::Value* do_sample = root.Find("do_sample");
  if (do_sample != nullptr && do_sample->is_bool() && !do_sample->AsBool()) out.sampling.temperature = 0;
  return out;
}

Result<GenerationDefaults> ReadGenerationConfig(const Checkpoint& checkpoint) {
  Result<std::string> text = checkpoint.ReadFile(kFileName, kMaxFileBytes);
  if (!text.ok()) {
    if (text.status().code() == StatusCode::kNotFound) return DefaultsWithoutFile(checkpoint.config());
    return std::move(text).status();
  }
  Result<GenerationDefaults> defaults = ParseGenerationConfig(*text, checkpoint.config());
  if (!defaults.ok()) return std::move(defaults).status().Within(checkpoint.dir() + "/" + kFileName);
  return defaults;
}

}  // namespace deepinfer
