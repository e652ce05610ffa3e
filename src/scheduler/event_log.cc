#include "scheduler/event_log.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/json.h"

namespace deepinfer::scheduler {
namespace {

using json::Value;

class Digest {
 public:
  void Add(uint64_t value) {
    // FNV-1a over words, then a multiplication that spreads the high bits down.
    state_ = (state_ ^ value) * 0x100000001b3ULL;
    state_ ^= state_ >> 29;
  }
  void AddSigned(int64_t value) { Add(static_cast<uint64_t>(value)); }
  uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0xcbf29ce484222325ULL;
};

std::string Line(std::string_view event, Value body) {
  Value line;
  line.Set(std::string(event), std::move(body));
  return json::Serialize(line) + "\n";
}

Value Hex(const cache::Digest& digest) { return ToHex(digest); }

bool FromHex(const std::string& text, cache::Digest* out) {
  if (text.size() != 2 * out->size()) return false;
  const auto nibble = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  for (size_t i = 0; i < out->size(); ++i) {
    const int high = nibble(text[2 * i]);
    const int low = nibble(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    (*out)[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return true;
}

/// Reads the members of one object; the first failure sticks.
class Reader {
 public:
  explicit Reader(const Value& object) : object_(object) {}

  template <std::integral T>
  void Int(const char* key, T* out) {
    const Value* value = Member(key, &Value::is_integer);
    if (value == nullptr) return;
    int64_t number = 0;
    uint64_t unsigned_number = 0;
    const bool fits = std::is_signed_v<T>
                          ? value->GetInt64(&number) && std::in_range<T>(number)
                          : value->GetUint64(&unsigned_number) && std::in_range<T>(unsigned_number);
    if (!fits) {
      Fail(key);
      return;
    }
    *out = std::is_signed_v<T> ? static_cast<T>(number) : static_cast<T>(unsigned_number);
  }

  template <class E>
  void Enum(const char* key, int last, E* out) {
    int number = 0;
    Int(key, &number);
    if (number < 0 || number > last) Fail(key);
    if (ok()) *out = static_cast<E>(number);
  }

  void Bool(const char* key, bool* out) {
    const Value* value = Member(key, &Value::is_bool);
    if (value != nullptr) *out = value->AsBool();
  }
  void Text(const char* key, std::string* out) {
    const Value* value = Member(key, &Value::is_string);
    if (value != nullptr) *out = value->AsString();
  }
  void Digest(const char* key, cache::Digest* out) {
    const Value* value = Member(key, &Value::is_string);
    if (value != nullptr && !FromHex(value->AsString(), out)) Fail(key);
  }
  void Ids(const char* key, std::vector<int32_t>* out) {
    for (const Value& item : Items(key)) {
      int64_t id = 0;
      if (!item.GetInt64(&id) || !std::in_range<int32_t>(id)) {
        Fail(key);
        return;
      }
      out->push_back(static_cast<int32_t>(id));
    }
  }
  const json::Array& Items(const char* key) {
    static const json::Array kNone;
    const Value* value = Member(key, &Value::is_array);
    return value == nullptr ? kNone : value->AsArray();
  }

  bool ok() const { return failed_.empty(); }
  const std::string& failed() const { return failed_; }

 private:
  const Value* Member(const char* key, bool (Value::*right)() const) {
    const Value* value = object_.Find(key);
    if (value != nullptr && (value->*right)()) return value;
    Fail(key);
    return nullptr;
  }
  void Fail(const char* key) {
    if (failed_.empty()) failed_ = key;
  }

  const Value& object_;
  std::string failed_;
};

bool ReadRequest(Reader* reader, Request* request) {
  reader->Int("id", &request->id);
  reader->Text("user", &request->user);
  reader->Int("priority", &request->priority);
  reader->Int("deadline", &request->deadline_us);
  reader->Ids("prompt", &request->prompt);
  reader->Int("max_tokens", &request->max_tokens);
  reader->Int("num_samples", &request->num_samples);
  reader->Int("seed", &request->seed);
  reader->Bool("constrained", &request->constrained);
  reader->Int("max_drafts", &request->max_drafts);
  reader->Enum("prefill_mode", 2, &request->prefill_mode);
  reader->Int("keep_tokens", &request->keep_tokens);
  reader->Enum("cache_policy", 2, &request->cache_policy);
  reader->Digest("cache_root", &request->cache_root);
  for (const Value& item : reader->Items("content_spans")) {
    Reader span_reader(item);
    cache::ContentSpan span;
    span_reader.Int("kind", &span.kind);
    span_reader.Int("begin", &span.begin);
    span_reader.Int("length", &span.length);
    span_reader.Digest("content", &span.content);
    if (!span_reader.ok()) return false;
    request->content_spans.push_back(span);
  }
  return reader->ok();
}

bool ReadResult(Reader* reader, StepResult* result) {
  reader->Int("step", &result->step);
  reader->Int("duration", &result->duration_us);
  for (const Value& item : reader->Items("results")) {
    Reader entry_reader(item);
    SequenceResult entry;
    std::vector<int32_t> tokens;
    int finish = -1;
    entry_reader.Int("sequence", &entry.sequence);
    entry_reader.Ids("tokens", &tokens);
    entry_reader.Int("finish", &finish);
    if (!entry_reader.ok() || tokens.size() > entry.tokens.size() || finish < -1 ||
        finish > static_cast<int>(FinishReason::kError)) {
      return false;
    }
    std::ranges::copy(tokens, entry.tokens.begin());
    entry.num_tokens = static_cast<int32_t>(tokens.size());
    if (finish >= 0) entry.finish = static_cast<FinishReason>(finish);
    result->sequences.push_back(entry);
  }
  return reader->ok();
}

Status Unsound(int64_t line, std::string what) {
  return DataLoss(std::move(what), fmt::format("line {}", line));
}

/// Calls the scheduler as one line says. Refused calls are part of a log: their answers change nothing.
Status ReplayEvent(int64_t line, const std::string& event, const Value& body, Scheduler* scheduler,
                   ReplayReport* report) {
  Reader reader(body);
  int64_t now = 0;
  uint64_t id = 0;
  if (event == "submit") {
    Request request;
    reader.Int("now", &now);
    if (!ReadRequest(&reader, &request)) return Unsound(line, "not a request");
    (void)scheduler->Submit(std::move(request), now);
  } else if (event == "commit") {
    StepResult result;
    reader.Int("now", &now);
    if (!ReadResult(&reader, &result)) return Unsound(line, "not the results of a step");
    (void)scheduler->Commit(result, now);
  } else if (event == "plan") {
    uint64_t digest = 0;
    reader.Int("now", &now);
    reader.Int("digest", &digest);
    if (!reader.ok()) return Unsound(line, "not a plan");
    ++report->plans;
    if (PlanDigest(scheduler->Plan(now)) != digest) return Unsound(line, "the plan comes out differently");
  } else if (event == "finish") {
    FinishReason reason = FinishReason::kStop;
    reader.Int("sequence", &id);
    reader.Enum("reason", static_cast<int>(FinishReason::kError), &reason);
    if (!reader.ok()) return Unsound(line, "not an end of a sequence");
    (void)scheduler->Finish(id, reason);
  } else {
    reader.Int("id", &id);
    if (!reader.ok()) return Unsound(line, "an event without its id");
    if (event == "cancel") {
      (void)scheduler->Cancel(id);
    } else if (event == "preempt") {
      (void)scheduler->Preempt(id);
    } else if (event == "fail") {
      (void)scheduler->Fail(id);
    } else {
      return Unsound(line, fmt::format("unknown event '{}'", event));
    }
  }
  return OkStatus();
}

}  // namespace

uint64_t PlanDigest(const StepPlan& plan) {
  Digest digest;
  digest.Add(plan.id);
  for (const int32_t id : plan.input_ids) digest.AddSigned(id);
  for (const SequenceStep& s : plan.sequences) {
    for (const uint64_t value :
         {s.request, s.sequence, static_cast<uint64_t>(s.state), s.token_source, s.seed}) {
      digest.Add(value);
    }
    for (const int64_t value : {int64_t{s.sample_index},
                                int64_t{s.slot},
                                static_cast<int64_t>(s.phase),
                                int64_t{s.first_row},
                                int64_t{s.num_rows},
                                int64_t{s.num_drafts},
                                s.first_position,
                                int64_t{s.position_slack},
                                int64_t{s.sample},
                                int64_t{s.num_samples},
                                int64_t{s.constrained},
                                static_cast<int64_t>(s.prefill_mode),
                                s.run_end,
                                s.keep_tokens,
                                s.decoder_begin,
                                static_cast<int64_t>(s.resume),
                                s.run_begin,
                                s.write_floor,
                                int64_t{s.approximate},
                                int64_t{s.first_chunk},
                                int64_t{s.recompute}}) {
      digest.AddSigned(value);
    }
  }
  for (const auto& copy : plan.copies.copies) {
    digest.Add(static_cast<uint64_t>(copy.kind));
    for (const uint64_t value : {copy.from, copy.to, copy.first_unit, copy.unit_count}) digest.Add(value);
    digest.AddSigned(copy.position);
  }
  for (const uint32_t unit : plan.copies.units) digest.Add(unit);
  return digest.value();
}

std::string ConfigLine(const SchedulerConfig& config) {
  Value body;
  for (const auto& [key, value] : std::initializer_list<std::pair<const char*, int64_t>>{
           {"max_sequences", config.max_sequences},
           {"num_slots", config.num_slots},
           {"max_waiting", config.max_waiting},
           {"context_limit", config.context_limit},
           {"exact_halo_rows", config.exact_halo_rows},
           {"draft_tokens", config.draft_tokens},
           {"max_steps_in_flight", config.max_steps_in_flight},
           {"max_rows_per_step", config.max_rows_per_step},
           {"max_prompt_rows_beside_decode", config.max_prompt_rows_beside_decode},
           {"decode_stall_us", config.decode_stall_us},
           {"min_prompt_rows", config.min_prompt_rows},
           {"aging_us", config.aging_us},
           {"urgent_us", config.urgent_us},
           {"window_snapshots", config.window_snapshots},
           {"single_flight_min_rows", config.single_flight_min_rows}}) {
    body.Set(key, value);
  }
  return Line("config", std::move(body));
}

std::string SubmitLine(const Request& request, int64_t now_us) {
  Value body;
  body.Set("now", now_us);
  body.Set("id", request.id);
  body.Set("user", request.user);
  body.Set("priority", request.priority);
  body.Set("deadline", request.deadline_us);
  body.Set("prompt", json::Array(request.prompt.begin(), request.prompt.end()));
  body.Set("max_tokens", request.max_tokens);
  body.Set("num_samples", request.num_samples);
  body.Set("seed", request.seed);
  body.Set("constrained", request.constrained);
  body.Set("max_drafts", request.max_drafts);
  body.Set("prefill_mode", static_cast<int>(request.prefill_mode));
  body.Set("keep_tokens", request.keep_tokens);
  body.Set("cache_policy", static_cast<int>(request.cache_policy));
  body.Set("cache_root", Hex(request.cache_root));
  json::Array spans;
  for (const cache::ContentSpan& span : request.content_spans) {
    Value item;
    item.Set("kind", static_cast<int>(span.kind));
    item.Set("begin", span.begin);
    item.Set("length", span.length);
    item.Set("content", Hex(span.content));
    spans.push_back(std::move(item));
  }
  body.Set("content_spans", std::move(spans));
  return Line("submit", std::move(body));
}

std::string CancelLine(RequestId request) { return Line("cancel", json::Object{{"id", request}}); }
std::string PreemptLine(SequenceId sequence) { return Line("preempt", json::Object{{"id", sequence}}); }
std::string FailLine(StepId step) { return Line("fail", json::Object{{"id", step}}); }
std::string FinishLine(SequenceId sequence, FinishReason reason) {
  return Line("finish", json::Object{{"sequence", sequence}, {"reason", static_cast<int>(reason)}});
}
std::string PlanLine(int64_t now_us, const StepPlan& plan) {
  return Line("plan", json::Object{{"now", now_us}, {"digest", PlanDigest(plan)}});
}

std::string CommitLine(const StepResult& result, int64_t now_us) {
  json::Array results;
  for (const SequenceResult& entry : result.sequences) {
    const auto count = std::clamp<int64_t>(entry.num_tokens, 0, kMaxTokensPerStep);
    Value item;
    item.Set("sequence", entry.sequence);
    item.Set("tokens", json::Array(entry.tokens.begin(), entry.tokens.begin() + count));
    item.Set("finish", entry.finish.has_value() ? static_cast<int>(*entry.finish) : -1);
    results.push_back(std::move(item));
  }
  return Line("commit", json::Object{{"now", now_us},
                                     {"step", result.step},
                                     {"duration", result.duration_us},
                                     {"results", std::move(results)}});
}

Result<ReplayReport> Replay(std::string_view log, Scheduler* scheduler) {
  ReplayReport report;
  while (!log.empty()) {
    const size_t end = std::min(log.find('\n'), log.size());
    const std::string_view text = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    const int64_t line = ++report.events;
    Result<Value> parsed = json::Parse(text);
    if (!parsed.ok()) return std::move(parsed).status().Within(fmt::format("line {}", line));
    if (!parsed->is_object() || parsed->AsObject().size() != 1 || !parsed->AsObject()[0].second.is_object()) {
      return Unsound(line, "an event is an object with one member");
    }
    const auto& [event, body] = parsed->AsObject()[0];
    if (line == 1) {
      if (std::string(text) + "\n" != ConfigLine(scheduler->config())) {
        return Unsound(line, "recorded with another configuration");
      }
      continue;
    }
    DEEPINFER_RETURN_IF_ERROR(ReplayEvent(line, event, body, scheduler, &report));
  }
  return report;
}

}  // namespace deepinfer::scheduler
