// OpenAI batch lines, and those of the same form for the other protocols: a request body with the path it would be sent to
// (spec: cli.md §2, batch, form 4).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"
#include "base/status.h"
#include "cli/batch_request.h"
#include "recipe/json_document.h"
#include "recipe/request.h"
#include "recipe/response.h"

namespace deepinfer::cli {

/// A line with `custom_id`, `url` or `body`.
bool IsOpenAiLine(recipe::JsonView line);

struct OpenAiLine {
  std::string custom_id;
  recipe::Protocol protocol = recipe::Protocol::kChat;
  recipe::JsonView body;
};

/// `custom_id` of a line; null when it has none that is a string.
json::Value CustomId(recipe::JsonView line);
/// Errors: kInvalidArgument that names the field of the line (not of the body).
Result<OpenAiLine> ReadOpenAiLine(recipe::JsonView line);

/// What the command line and the model decide about bodies.
struct OpenAiDefaults {
  recipe::RequestOptions options;
  bool has_temperature = false, has_top_p = false, has_max_tokens = false;  // options of the command line
};
OpenAiDefaults MakeOpenAiDefaults(const Arguments& args, const PromptSettings& prompt, int64_t context_length,
                                  std::string model_name);

/// Reads the body of a line, and refuses what CheckSupported refuses.
recipe::RequestResult ParseOpenAiBody(const OpenAiLine& line, const OpenAiDefaults& defaults);

/// Sampling of a request: its own values as the library resolves them (spec: recipe.md §7.2), the command line's options where the
/// body gives none, and for what the protocols do not have. Nothing, and `error` filled, when prompt and answer exceed the context.
std::optional<BaseRequest> OpenAiSampling(const OpenAiLine& line, const recipe::Request& request,
                                          const BaseRequest& base, const OpenAiDefaults& defaults,
                                          int64_t prompt_tokens, recipe::RequestError* error);

/// The error body for a status of ours.
recipe::RequestError OpenAiError(const Status& status);

/// {"id","custom_id","response":{"status_code","request_id","body"},"error":null}.
json::Value OpenAiResult(const LineIdentity& identity, json::Value custom_id, int status_code,
                         json::Value body);
/// The same for a line that is no request: {"id","custom_id","response":null,"error":{…}}.
json::Value OpenAiFailure(const LineIdentity& identity, json::Value custom_id, const Status& status);
/// `id` of both.
std::string OpenAiResultId(const LineIdentity& identity);

}  // namespace deepinfer::cli
