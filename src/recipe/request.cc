#include "recipe/request.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "recipe/request_context.h"
#include "recipe/request_fields.h"
#include "recipe/request_protocols.h"

namespace deepinfer::recipe {
namespace {

// Names that every request may use (spec: recipe.md §8.2).
constexpr std::pair<std::string_view, ModelVersion> kModels[] = {
    {"DeepSeek-V4.1-Flash", ModelVersion::kV41Flash},
    {"deepseek-flash", ModelVersion::kV41Flash},
    {"deepseek-v4-flash", ModelVersion::kV41Flash},
    {"deepseek-v4-flash-vision-exp", ModelVersion::kV41Flash},
    {"DeepSeek-V4-Pro", ModelVersion::kV4Pro},
    {"deepseek-v4-pro", ModelVersion::kV4Pro},
};

constexpr std::array<std::string_view, 4> kProtocols = {"chat", "responses", "messages", "completions"};

RequestError BodyError(int status, RejectKind kind, std::string message) {
  RequestError error;
  error.status = status;
  error.kind = kind;
  error.stage = RejectStage::kBody;
  error.message = std::move(message);
  return error;
}

bool ReadBody(JsonView body, RequestContext& context) {
  switch (context.protocol()) {
    case Protocol::kChat: return ReadChatBody(body, context);
    case Protocol::kResponses: return ReadResponsesBody(body, context);
    case Protocol::kMessages: return ReadMessagesBody(body, context);
    case Protocol::kCompletions: return ReadCompletionsBody(body, context);
  }
  return false;
}

}  // namespace

bool RequestContext::RejectBody(RejectKind kind, const FieldPath& path, std::string_view what) {
  const std::string place = path.ToString();
  error = BodyError(400, kind,
                    fmt::format("invalid request body: {}{}{}", place, place.empty() ? "" : ": ", what));
  return false;
}

bool RequestContext::Reject(RejectKind kind, std::string message) {
  error = BodyError(400, kind, std::move(message));
  error.stage = RejectStage::kConvert;
  return false;
}

RequestResult ParseRequest(Protocol protocol, std::string_view body, const RequestOptions& options) {
  if (body.size() > options.max_body_bytes) {
    return BodyError(
        413, RejectKind::kTooLarge,
        fmt::format("request body of {} bytes is larger than {}", body.size(), options.max_body_bytes));
  }
  JsonLimits limits;
  limits.max_bytes = options.max_body_bytes;
  const auto document = JsonDocument::Parse(body, limits);
  if (!document.ok()) {
    const bool too_large = document.status().code() == StatusCode::kResourceExhausted;
    return BodyError(too_large ? 413 : 400, too_large ? RejectKind::kTooLarge : RejectKind::kBadJson,
                     "invalid JSON request: " + document.status().ToString());
  }
  return ParseRequest(protocol, document->root(), options);
}

RequestResult ParseRequest(Protocol protocol, JsonView body, const RequestOptions& options) {
  RequestContext context(options);
  context.request.protocol = protocol;
  if (!ReadBody(body, context)) return std::move(context.error);
  return std::move(context.request);
}

std::optional<int64_t> ResolveMaxTokens(const Request& request, int64_t prompt_tokens,
                                        const RequestOptions& options, RequestError* error) {
  constexpr int64_t kWithoutThinking = 8192;
  constexpr int64_t kThinking = 65'536;
  constexpr int64_t kThinkingMost = 131'072;
  const int64_t asked = request.inference.max_tokens.value_or(0);
  if (prompt_tokens > options.context_length || asked > options.context_length - prompt_tokens) {
    *error = BodyError(
        400, RejectKind::kContext,
        fmt::format(
            "This model's maximum context length is {} tokens. However, you requested {} tokens ({} in "
            "the messages, {} in the completion). Please reduce the length of the messages or "
            "completion.",
            options.context_length, prompt_tokens + asked, prompt_tokens, asked));
    error->stage = RejectStage::kConvert;
    return std::nullopt;
  }
  if (request.inference.max_tokens.has_value()) return asked;
  int64_t most = kWithoutThinking;
  if (request.protocol != Protocol::kCompletions && request.conversation.thinking) {
    const Effort effort = request.conversation.effort.value_or(Effort());
    most = effort.number == 100 ? kThinkingMost : kThinking;
  }
  return std::max<int64_t>(1, std::min(most, options.context_length - prompt_tokens));
}

std::optional<ModelVersion> FindModel(std::string_view name, const RequestOptions& options) {
  for (const auto& [alias, version] : options.aliases) {
    if (alias == name) return version;
  }
  for (const auto& [model, version] : kModels) {
    if (model == name) return version;
  }
  return std::nullopt;
}

std::string_view ProtocolName(Protocol protocol) { return kProtocols[static_cast<size_t>(protocol)]; }

std::optional<Protocol> FindProtocol(std::string_view name) {
  const auto* found = std::find(kProtocols.begin(), kProtocols.end(), name);
  if (found == kProtocols.end()) return std::nullopt;
  return static_cast<Protocol>(found - kProtocols.begin());
}

std::span<const FieldTable> FieldTables(Protocol protocol) {
  switch (protocol) {
    case Protocol::kChat: return ChatTables();
    case Protocol::kResponses: return ResponsesTables();
    case Protocol::kMessages: return MessagesTables();
    case Protocol::kCompletions: return CompletionsTables();
  }
  return {};
}

}  // namespace deepinfer::recipe
