// OpenAI Completions bodies, with DeepSeek's fill in the middle (spec: recipe.md §8.4, §3.11).
#include "recipe/request_protocols.h"
#include "recipe/request_validators.h"

namespace deepinfer::recipe {
namespace {

using Presence = FieldPresence;
using Type = FieldType;

bool ReadTopCandidates(JsonView value, const FieldPath& path, RequestContext& context) {
  context.request.inference.logprobs = true;
  return ReadTopLogprobs(value, path, context);
}

bool ReadSuffix(JsonView value, const FieldPath& /*path*/, RequestContext& context) {
  if (!context.options.fill_in_the_middle) {
    return context.Reject(RejectKind::kUnsupported,
                          "suffix: fill in the middle is not enabled on this server");
  }
  context.request.completion->suffix = value.AsString();
  return true;
}

bool ReadPrompt(JsonView value, const FieldPath& /*path*/, RequestContext& context) {
  context.request.completion->prompt = value.AsString();
  return true;
}

bool ReadEcho(JsonView value, const FieldPath& /*path*/, RequestContext& context) {
  context.request.completion->echo = value.AsBool();
  return true;
}

constexpr Field kBodyFields[] = {
    {"model", Type::kString, Presence::kRequired, "a name of the model table or an alias", ReadModel},
    {"prompt", Type::kString, Presence::kRequired, "the text as it is; nothing in it becomes a special token",
     ReadPrompt},
    {"suffix", Type::kString, Presence::kNullable,
     "the text behind the gap (fill in the middle); refused unless the server enables it", ReadSuffix},
    {"echo", Type::kBool, Presence::kNullable, "the answer repeats the prompt", ReadEcho},
    {"max_tokens", Type::kUint32, Presence::kNullable, "1 to 393216", ReadMaxTokens},
    {"temperature", Type::kNumber, Presence::kNullable, "0 to 2", ReadTemperature},
    {"top_p", Type::kNumber, Presence::kNullable, "above 0, up to 1", ReadTopP},
    {"frequency_penalty", Type::kNumber, Presence::kNullable, "-2 to 2; without effect",
     ReadFrequencyPenalty},
    {"presence_penalty", Type::kNumber, Presence::kNullable, "-2 to 2; without effect", ReadPresencePenalty},
    {"logprobs", Type::kUint8, Presence::kNullable, "number of likeliest tokens, 0 to 20", ReadTopCandidates},
    {"n", Type::kUint8, Presence::kNullable, "only 1", ReadChoiceCount},
    {"seed", Type::kUint64, Presence::kNullable, "0 to 2^63 - 1", ReadSeed},
    {"stop", Type::kStringOrArray, Presence::kNullable, "a string or up to 16 strings, none empty", ReadStop},
    {"stream", Type::kBool, Presence::kNullable, "the answer as a stream of events", ReadStream},
    {"stream_options", Type::kObject, Presence::kNullable, "only with `stream: true`", ReadStreamOptions},
    {"user_id", Type::kAny, Presence::kNullable, "separates users in the cache", ReadUserId},
};

constexpr FieldTable kTables[] = {
    {"body", kBodyFields},
    {"stream_options", kStreamOptionsFields},
};

}  // namespace

std::span<const FieldTable> CompletionsTables() { return kTables; }

bool ReadCompletionsBody(JsonView body, RequestContext& context) {
  const FieldPath path;
  context.request.completion.emplace();
  context.thinking = false;
  FieldValues values;
  return FieldValues::Read(body, path, kBodyFields, context, &values) && values.Validate(path, context) &&
         CheckStreamOptions(context) && ResolveSettings(context);
}

}  // namespace deepinfer::recipe
