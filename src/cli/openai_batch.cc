#include "cli/openai_batch.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "cli/chat_request.h"
#include "cli/output.h"
#include "cli/suggest.h"

namespace deepinfer::cli {
namespace {

using recipe::JsonView;
using recipe::Protocol;

constexpr std::array<std::pair<std::string_view, Protocol>, 4> kUrls = {
    {{"/v1/chat/completions", Protocol::kChat},
     {"/v1/completions", Protocol::kCompletions},
     {"/v1/responses", Protocol::kResponses},
     {"/v1/messages", Protocol::kMessages}}};

const std::vector<std::string>& LineFields() {
  static const std::vector<std::string> kFields = {"custom_id", "method", "url", "body"};
  return kFields;
}

// A member that is there and not null: what protocols call given.
bool Gives(JsonView object, std::string_view name) {
  const auto value = object.Find(name);
  return value && !value->is_null();
}

}  // namespace

bool IsOpenAiLine(JsonView line) { return line.Find("custom_id") || line.Find("url") || line.Find("body"); }

json::Value CustomId(JsonView line) {
  const auto custom_id = line.Find("custom_id");
  return custom_id && custom_id->is_string() ? json::Value(custom_id->AsString()) : json::Value();
}

Result<OpenAiLine> ReadOpenAiLine(JsonView line) {
  for (const auto& [key, value] : line.members()) {
    const std::string name(key.substr(0, 80));
    if (std::find(LineFields().begin(), LineFields().end(), key) != LineFields().end()) continue;
    const std::string nearest = Nearest(name, LineFields());
    return InvalidArgument(
        fmt::format("unknown field \"{}\"{}", name,
                    nearest.empty() ? std::string() : fmt::format("; did you mean \"{}\"?", nearest)),
        name);
  }
  const json::Value custom_id = CustomId(line);
  if (custom_id.is_null()) return InvalidArgument("custom_id must be a text", "custom_id");
  const auto method = line.Find("method");
  if (!method || !method->is_string() || method->AsString() != "POST")
    return InvalidArgument("method must be \"POST\"", "method");
  const auto url = line.Find("url");
  const std::string_view path = url && url->is_string() ? url->AsString() : std::string_view();
  const auto* known =
      std::find_if(kUrls.begin(), kUrls.end(), [&](const auto& u) { return u.first == path; });
  if (known == kUrls.end()) {
    return InvalidArgument(
        "url must be \"/v1/chat/completions\", \"/v1/completions\", \"/v1/responses\" or \"/v1/messages\"",
        "url");
  }
  const auto body = line.Find("body");
  if (!body || !body->is_object()) return InvalidArgument("body must be an object", "body");
  return OpenAiLine{.custom_id = custom_id.AsString(), .protocol = known->second, .body = *body};
}

OpenAiDefaults MakeOpenAiDefaults(const Arguments& args, const PromptSettings& prompt, int64_t context_length,
                                  std::string model_name) {
  OpenAiDefaults defaults;
  defaults.options.default_thinking = prompt.thinking.value_or(true);
  defaults.options.context_length = context_length;
  defaults.options.aliases.emplace_back(std::move(model_name), recipe::ModelVersion::kV41Flash);
  if (prompt.effort) defaults.options.default_effort = *prompt.effort;
  defaults.has_temperature = args.Has("--temperature");
  defaults.has_top_p = args.Has("--top-p");
  defaults.has_max_tokens = args.Has("--max-tokens");
  return defaults;
}

recipe::RequestResult ParseOpenAiBody(const OpenAiLine& line, const OpenAiDefaults& defaults) {
  recipe::RequestResult request = recipe::ParseRequest(line.protocol, line.body, defaults.options);
  if (!request.ok()) return request;
  if (const Status status = CheckSupported(*request); !status.ok()) return OpenAiError(status);
  return request;
}

std::optional<BaseRequest> OpenAiSampling(const OpenAiLine& line, const recipe::Request& request,
                                          const BaseRequest& base, const OpenAiDefaults& defaults,
                                          int64_t prompt_tokens, recipe::RequestError* error) {
  const auto max_tokens = recipe::ResolveMaxTokens(request, prompt_tokens, defaults.options, error);
  if (!max_tokens) return std::nullopt;
  const recipe::InferenceOptions& inference = request.inference;
  BaseRequest out = base;
  out.n = 1;
  const bool own_temperature = Gives(line.body, "temperature") || !defaults.has_temperature;
  if (own_temperature) out.request.sampling.temperature = inference.temperature;
  if (Gives(line.body, "top_p") || !defaults.has_top_p) out.request.sampling.top_p = inference.top_p;
  if (inference.max_tokens || !defaults.has_max_tokens) out.request.max_tokens = *max_tokens;
  out.request.logprobs = inference.logprobs ? inference.top_logprobs.value_or(0) : -1;
  if (!request.parsing.stops.empty()) out.request.stop = request.parsing.stops;
  if (inference.seed) out.seed = static_cast<uint64_t>(*inference.seed);
  return out;
}

recipe::RequestError OpenAiError(const Status& status) {
  recipe::RequestError error;
  const bool of_the_request =
      status.code() == StatusCode::kInvalidArgument || status.code() == StatusCode::kUnavailable;
  error.status = of_the_request ? 400 : 500;
  error.kind = recipe::RejectKind::kUnsupported;
  error.stage = recipe::RejectStage::kConvert;
  error.message = status.message();
  if (!of_the_request) error.type = error.code = "internal_error";
  return error;
}

std::string OpenAiResultId(const LineIdentity& identity) { return "batch_req_" + identity.Id("result"); }

json::Value OpenAiResult(const LineIdentity& identity, json::Value custom_id, int status_code,
                         json::Value body) {
  json::Object response;
  response.emplace_back("status_code", status_code);
  response.emplace_back("request_id", "req_" + identity.Id("request"));
  response.emplace_back("body", std::move(body));
  return json::Object{{"id", OpenAiResultId(identity)},
                      {"custom_id", std::move(custom_id)},
                      {"response", std::move(response)},
                      {"error", nullptr}};
}

json::Value OpenAiFailure(const LineIdentity& identity, json::Value custom_id, const Status& status) {
  return json::Object{{"id", OpenAiResultId(identity)},
                      {"custom_id", std::move(custom_id)},
                      {"response", nullptr},
                      {"error", ErrorObject(status)}};
}

}  // namespace deepinfer::cli
