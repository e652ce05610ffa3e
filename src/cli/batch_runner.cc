#include "cli/batch_runner.h"

#include <utility>

#include <fmt/format.h>

#include "cli/interrupt.h"
#include "cli/output.h"
#include "recipe/prompt.h"

namespace deepinfer::cli {
namespace {

LineResult Failed(json::Value id, const Status& status, int64_t line_number) {
  LineResult result;
  result.failed = true;
  result.object.Set("id", std::move(id));
  json::Value error = ErrorObject(status);
  if (status.where().empty()) error.Set("where", fmt::format("line {}", line_number + 1));
  result.object.Set("error", std::move(error));
  return result;
}

// A line of form 4. Bodies follow the rules of request bodies, so the reader of those looks at the line first.
Result<recipe::JsonDocument> ReadAsBody(const Line& line) {
  return recipe::JsonDocument::Parse(line.text, {.max_bytes = kMaxLineBytes});
}

}  // namespace

json::Value ResultId(const Line& line, const Sha256Digest& input) {
  if (line.too_long) return nullptr;
  const Result<recipe::JsonDocument> document = ReadAsBody(line);
  if (document.ok() && IsOpenAiLine(document->root())) return OpenAiResultId({input, line.number});
  const Result<json::Value> value = json::Parse(line.text, LineLimits());
  if (!value.ok() || !value->is_object()) return nullptr;
  Result<json::Value> id = LineId(*value);
  return id.ok() ? *std::move(id) : json::Value();
}

bool IsFailure(const json::Value& result) {
  const json::Value* error = result.Find("error");
  if (error != nullptr && !error->is_null()) return true;
  const json::Value* response = result.Find("response");
  const json::Value* status = response == nullptr ? nullptr : response->Find("status_code");
  int64_t code = 200;
  return status != nullptr && status->GetInt64(&code) && code != 200;
}

BatchRunner::BatchRunner(Engine& engine, const Arguments& args, BatchDefaults defaults,
                         std::string model_name)
    : engine_(engine),
      args_(args),
      defaults_(std::move(defaults)),
      openai_(MakeOpenAiDefaults(args, defaults_.prompt, engine.config().max_position_embeddings,
                                 std::move(model_name))) {}

Result<LineResult> BatchRunner::Run(const Line& line, const Sha256Digest& input, BatchMeter* meter) {
  if (line.too_long) {
    return Failed(nullptr, ResourceExhausted(fmt::format("the line is longer than {} bytes", kMaxLineBytes)),
                  line.number);
  }
  const LineIdentity identity{input, line.number};
  const Result<recipe::JsonDocument> document = ReadAsBody(line);
  if (document.ok() && IsOpenAiLine(document->root())) return RunOpenAi(document->root(), identity, meter);
  return RunLine(line, identity, meter);
}

Result<LineResult> BatchRunner::RunLine(const Line& line, const LineIdentity& identity, BatchMeter* meter) {
  Result<json::Value> value = json::Parse(line.text, LineLimits());
  if (!value.ok())
    return Failed(nullptr, value.status().Within(fmt::format("line {}", line.number + 1)), line.number);
  if (!value->is_object()) return Failed(nullptr, InvalidArgument("a line must be an object"), line.number);
  const Result<json::Value> id = LineId(*value);
  if (!id.ok()) return Failed(nullptr, id.status(), line.number);
  Result<BatchRequest> request = ParseBatchRequest(*std::move(value), defaults_);
  if (!request.ok()) return Failed(*id, request.status(), line.number);
  const std::string field = PromptField(*request);
  const Result<Prompt> prompt = LinePrompt(engine_.tokenizer(), *request, history_thinking());
  if (!prompt.ok()) return Failed(*id, prompt.status(), line.number);
  LineResult result;
  const Result<Answer> answer = Run(*prompt, request->base, identity, meter, &result);
  if (!answer.ok() && !IsRequestFault(answer.status())) return answer.status();
  if (!answer.ok()) return Failed(*id, InTermsOfOptions(answer.status(), args_, field), line.number);
  result.object = AnswerToJson(
      *answer,
      {.id = *id, .prompt = &*prompt, .request = &request->base, .choices = request->has_n, .load_ms = {}});
  return result;
}

Result<Answer> BatchRunner::Run(const Prompt& prompt, const BaseRequest& request,
                                const LineIdentity& identity, BatchMeter* meter, LineResult* result) {
  int64_t tokens = 0;
  AnswerRun run;
  run.seed = request.seed.value_or(identity.Seed());
  run.id_key = identity.Id("calls");
  run.on_token = [&] { meter->Tick(++tokens); };
  DEEPINFER_ASSIGN_OR_RETURN(Answer answer, RunAnswer(engine_, prompt, request, run));
  result->interrupted = answer.interrupted();
  result->prompt_tokens = static_cast<int64_t>(prompt.ids.size());
  for (const Sample& sample : answer.samples)
    result->output_tokens += static_cast<int64_t>(sample.result.output_ids.size());
  return answer;
}

Result<LineResult> BatchRunner::RunOpenAi(recipe::JsonView line, const LineIdentity& identity,
                                          BatchMeter* meter) {
  LineResult result;
  const Result<OpenAiLine> openai = ReadOpenAiLine(line);
  if (!openai.ok()) {
    result.failed = true;
    result.object = OpenAiFailure(identity, CustomId(line), openai.status());
    return result;
  }
  recipe::RequestError error;
  DEEPINFER_ASSIGN_OR_RETURN(json::Value body, AnswerOpenAi(*openai, identity, meter, &result, &error));
  result.failed = error.status != 0;
  result.object = result.failed ? OpenAiResult(identity, openai->custom_id, error.status, error.ToJson())
                                : OpenAiResult(identity, openai->custom_id, 200, std::move(body));
  return result;
}

Result<Prompt> BatchRunner::OpenAiPrompt(const recipe::Request& request) const {
  if (!request.completion) return ChatPrompt(engine_.tokenizer(), request, history_thinking());
  const recipe::Prompt rendered =
      recipe::RenderCompletion(request.completion->prompt, request.completion->suffix);
  DEEPINFER_ASSIGN_OR_RETURN(std::vector<int32_t> ids, recipe::EncodePrompt(rendered, engine_.tokenizer()));
  return Prompt{.ids = std::move(ids), .answer = recipe::MakeAnswerOptions(request)};
}

Result<json::Value> BatchRunner::AnswerOpenAi(const OpenAiLine& line, const LineIdentity& identity,
                                              BatchMeter* meter, LineResult* result,
                                              recipe::RequestError* error) {
  const recipe::RequestResult request = ParseOpenAiBody(line, openai_);
  if (!request.ok()) {
    *error = request.error();
    return json::Value();
  }
  const Result<Prompt> prompt = OpenAiPrompt(*request);
  if (!prompt.ok()) {
    *error = OpenAiError(prompt.status());
    return json::Value();
  }
  const auto prompt_tokens = static_cast<int64_t>(prompt->ids.size());
  const auto sampling = OpenAiSampling(line, *request, defaults_.base, openai_, prompt_tokens, error);
  if (!sampling) return json::Value();
  const Result<Answer> answer = Run(*prompt, *sampling, identity, meter, result);
  if (!answer.ok() && !IsRequestFault(answer.status())) return answer.status();
  if (!answer.ok()) {
    *error = OpenAiError(answer.status());
    return json::Value();
  }
  auto options = recipe::MakeResponseOptions(
      *request, request->inference.logprobs ? engine_.shared_tokenizer() : nullptr);
  options.id = identity.Id("response");
  // No clock enters a result: a resumed run is identical to an uninterrupted one. `created` stays 0.
  return recipe::ResponseObject(line.protocol, answer->samples.front().answer, options);
}

}  // namespace deepinfer::cli
