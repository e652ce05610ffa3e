#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "sampling/sampling.h"

namespace deepinfer::sampling {
namespace {

constexpr double kMaxBias = 100;  // as in the OpenAI API

constexpr std::array kFields = {
    FieldSpec{.name = "temperature",
              .min = 0,
              .max = 100,
              .meaning = "0 = arg-max",
              .get = [](const SamplingParams& p) { return p.temperature; },
              .set = [](SamplingParams& p, double v) { p.temperature = v; }},
    FieldSpec{.name = "top_p",
              .min = 0,
              .max = 1,
              .min_excluded = true,
              .meaning = "probability mass kept, 1 = all",
              .get = [](const SamplingParams& p) { return p.top_p; },
              .set = [](SamplingParams& p, double v) { p.top_p = v; }},
    FieldSpec{.name = "top_k",
              .min = 0,
              .max = std::numeric_limits<int32_t>::max(),
              .integer = true,
              .meaning = "tokens kept, 0 = all",
              .get = [](const SamplingParams& p) { return static_cast<double>(p.top_k); },
              .set = [](SamplingParams& p, double v) { p.top_k = static_cast<int64_t>(v); }},
    FieldSpec{.name = "min_p",
              .min = 0,
              .max = 1,
              .meaning = "least probability relative to the best token, 0 = off",
              .get = [](const SamplingParams& p) { return p.min_p; },
              .set = [](SamplingParams& p, double v) { p.min_p = v; }},
    FieldSpec{.name = "repetition_penalty",
              .min = 0.01,
              .max = 100,
              .meaning = "divides the logits of tokens seen in prompt or output, 1 = off",
              .get = [](const SamplingParams& p) { return p.repetition_penalty; },
              .set = [](SamplingParams& p, double v) { p.repetition_penalty = v; }},
    FieldSpec{.name = "presence_penalty",
              .min = -2,
              .max = 2,
              .meaning = "taken from the logits of tokens in the output, 0 = off",
              .get = [](const SamplingParams& p) { return p.presence_penalty; },
              .set = [](SamplingParams& p, double v) { p.presence_penalty = v; }},
    FieldSpec{.name = "frequency_penalty",
              .min = -2,
              .max = 2,
              .meaning = "the same for every occurrence, 0 = off",
              .get = [](const SamplingParams& p) { return p.frequency_penalty; },
              .set = [](SamplingParams& p, double v) { p.frequency_penalty = v; }},
};

}  // namespace

std::span<const FieldSpec> Fields() { return kFields; }

const FieldSpec* FindField(std::string_view name) {
  const auto it =
      std::find_if(kFields.begin(), kFields.end(), [&](const FieldSpec& f) { return f.name == name; });
  return it == kFields.end() ? nullptr : &*it;
}

std::string RangeText(const FieldSpec& field) {
  return fmt::format("{} in {}{}, {}]", field.integer ? "an integer" : "a number",
                     field.min_excluded ? '(' : '[', field.min, field.max);
}

Status CheckField(const FieldSpec& field, double value) {
  // Written so that NaN fails.
  const bool above = field.min_excluded ? value > field.min : value >= field.min;
  if (above && value <= field.max && (!field.integer || value == std::floor(value))) return OkStatus();
  return InvalidArgument(fmt::format("{} must be {}, not {}", field.name, RangeText(field), value),
                         std::string(field.name));
}

Status SetField(std::string_view name, double value, SamplingParams* params) {
  const FieldSpec* field = FindField(name);
  if (field == nullptr) {
    return InvalidArgument(fmt::format("there is no sampling parameter '{}'", name), std::string(name));
  }
  DEEPINFER_RETURN_IF_ERROR(CheckField(*field, value));
  field->set(*params, value);
  return OkStatus();
}

Status CheckLogitBias(int64_t id, double bias, int64_t vocab_size) {
  if (id < 0 || id >= vocab_size) {
    return InvalidArgument(
        fmt::format("the token id of a logit bias must be in [0, {}], not {}", vocab_size - 1, id),
        "logit_bias");
  }
  if (bias >= -kMaxBias && bias <= kMaxBias) return OkStatus();
  return InvalidArgument(fmt::format("the logit bias of token {} must be a number in [{}, {}], not {}", id,
                                     -kMaxBias, kMaxBias, bias),
                         "logit_bias");
}

Status Validate(const SamplingParams& params, int64_t vocab_size) {
  for (const FieldSpec& field : kFields) DEEPINFER_RETURN_IF_ERROR(CheckField(field, field.get(params)));
  std::vector<int32_t> ids;
  for (const auto& [id, bias] : params.logit_bias) {
    DEEPINFER_RETURN_IF_ERROR(CheckLogitBias(id, static_cast<double>(bias), vocab_size));
    ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  if (twice == ids.end()) return OkStatus();
  return InvalidArgument(fmt::format("token {} has two logit biases", *twice), "logit_bias");
}

}  // namespace deepinfer::sampling
