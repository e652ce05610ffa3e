#include "recipe/output_parser.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/json.h"

namespace deepinfer::recipe {
namespace internal {

// What a match does, besides the argument text it writes.
enum class Action : uint8_t { kDrop, kText, kCall, kStop };
// What bytes are that no pattern claims.
enum class Meaning : uint8_t {
  kDropped,
  kText,
  kReplaced,
  kName,
  kEscapedArguments,
  kRawArguments,
  kReasoning
};

struct ParserPattern {
  std::string literal;
  size_t next = 0;
  Action action = Action::kDrop;
  std::string arguments;              // text that a match adds to the arguments
  bool newlines = false;              // the run of newlines before the literal belongs to the match
  std::vector<size_t> fallback = {};  // Knuth-Morris-Pratt: longest border of each beginning of the literal
};

struct ParserState {
  Meaning meaning = Meaning::kDropped;
  std::vector<ParserPattern> patterns;  // the first one that completes wins
  bool drops_first_newlines = false;
  ByteSet begins;  // bytes that can begin a match
  // No literal holds another one, so the first byte of a literal that stands there whole is the begin of the next match.
  bool literals_are_disjoint = true;
};

// The states of recipe.md §6.2. "Begin" states drop newlines until another byte came.
enum : size_t {
  kAnswerBegin,
  kAnswer,
  kJson,
  kAfterJson,
  kCalls,
  kCallName,
  kFirstParameter,
  kParameter,
  kParameterName,
  kParameterType,
  kStringValue,
  kJsonValue,
  kReasoningBegin,
  kReasoning,
  kFinished,
  kNumStates,
};

struct ParserTables {
  std::array<ParserState, kNumStates> states;
};

}  // namespace internal

namespace {

using namespace internal;  // NOLINT: the names above are this file's own

constexpr std::string_view kDsmlOpen = "<｜DSML｜";
constexpr std::string_view kDsmlClose = "</｜DSML｜";
constexpr std::string_view kThinkEnd = "</think>";
constexpr std::string_view kFence = "```";

ParserPattern Literal(std::string_view literal, size_t next, std::string_view arguments = {}) {
  return {.literal = std::string(literal), .next = next, .arguments = std::string(arguments)};
}

ParserPattern WithNewlines(std::string_view literal, size_t next) {
  ParserPattern pattern = Literal(literal, next);
  pattern.newlines = true;
  return pattern;
}

std::vector<size_t> Borders(std::string_view literal) {
  std::vector<size_t> borders(literal.size(), 0);
  size_t length = 0;
  for (size_t i = 1; i < literal.size(); ++i) {
    while (length > 0 && literal[i] != literal[length]) length = borders[length - 1];
    if (literal[i] == literal[length]) ++length;
    borders[i] = length;
  }
  return borders;
}

void AddStops(std::span<const std::string> stops, ParserState* state) {
  for (const std::string& stop : stops) {
    if (stop.empty()) continue;
    state->literals_are_disjoint = false;
    state->patterns.push_back({.literal = stop, .next = kFinished, .action = Action::kStop, .arguments = {}});
  }
}

void AddAnswerStates(const ParsingOptions& options, ParserTables* tables) {
  ParserState answer;
  answer.meaning = options.json ? Meaning::kReplaced : Meaning::kText;
  if (options.json) {
    answer.patterns.push_back(Literal(std::string(kFence) + "json\n", kJson));
    answer.patterns.push_back(Literal(std::string(kFence) + "\n", kJson));
    for (const std::string_view bracket : {"{", "["}) {
      answer.patterns.push_back(Literal(bracket, kJson));
      answer.patterns.back().action = Action::kText;
    }
  } else {
    AddStops(options.stops, &answer);
  }
  if (options.tools) answer.patterns.push_back(WithNewlines(kDsmlOpen, kCalls));
  answer.patterns.push_back(Literal(kThinkEnd, kAnswer));
  tables->states[kAnswer] = answer;
  answer.drops_first_newlines = true;
  tables->states[kAnswerBegin] = std::move(answer);

  ParserState& json = tables->states[kJson];
  json.meaning = Meaning::kText;
  AddStops(options.stops, &json);
  json.patterns.push_back(Literal("\n" + std::string(kFence), kAfterJson));
  ParserState& after_json = tables->states[kAfterJson];
  after_json.meaning = Meaning::kReplaced;
  if (options.tools) after_json.patterns.push_back(WithNewlines(kDsmlOpen, kCalls));
}

void AddCallStates(ParserTables* tables) {
  auto& states = tables->states;
  states[kCalls].patterns = {Literal("invoke name=\"", kCallName),
                             Literal(std::string(kDsmlClose) + "tool_calls>", kFinished),
                             Literal(std::string(kDsmlClose) + " calls>", kFinished)};
  states[kCallName].meaning = Meaning::kName;
  states[kCallName].patterns = {Literal("\"", kFirstParameter)};
  states[kCallName].patterns.front().action = Action::kCall;
  states[kFirstParameter].patterns = {Literal("parameter name=\"", kParameterName, "{\""),
                                      Literal(kDsmlClose, kCalls, "{}")};
  states[kParameter].patterns = {Literal("parameter name=\"", kParameterName, ", \""),
                                 Literal(kDsmlClose, kCalls, "}")};
  states[kParameterName].meaning = Meaning::kEscapedArguments;  // spec: recipe.md §17 D2
  states[kParameterName].patterns = {Literal("\"", kParameterType, "\": ")};
  states[kParameterType].patterns = {Literal("true\">", kStringValue, "\""), Literal("false\">", kJsonValue)};
  states[kStringValue].meaning = Meaning::kEscapedArguments;
  states[kStringValue].patterns = {Literal(kDsmlClose, kParameter, "\"")};
  states[kJsonValue].meaning = Meaning::kRawArguments;
  states[kJsonValue].patterns = {Literal(kDsmlClose, kParameter)};
}

void AddReasoningStates(bool tools, ParserTables* tables) {
  ParserState reasoning;
  reasoning.meaning = Meaning::kReasoning;
  if (tools) reasoning.patterns.push_back(WithNewlines(kDsmlOpen, kCalls));
  reasoning.patterns.push_back(WithNewlines(kThinkEnd, kAnswerBegin));
  tables->states[kReasoning] = reasoning;
  reasoning.drops_first_newlines = true;
  tables->states[kReasoningBegin] = std::move(reasoning);
}

std::shared_ptr<const ParserTables> Finished(ParserTables tables) {
  for (ParserState& state : tables.states) {
    for (ParserPattern& pattern : state.patterns) {
      pattern.fallback = Borders(pattern.literal);
      state.begins.Add(pattern.literal.front());
      if (pattern.newlines) state.begins.Add('\n');
    }
  }
  return std::make_shared<const ParserTables>(std::move(tables));
}

std::shared_ptr<const ParserTables> MakeTables(const ParsingOptions& options) {
  ParserTables tables;
  AddAnswerStates(options, &tables);
  AddCallStates(&tables);
  AddReasoningStates(options.tools, &tables);
  return Finished(std::move(tables));
}

std::shared_ptr<const ParserTables> TablesOf(bool tools, bool json) {
  ParsingOptions options;
  options.tools = tools;
  options.json = json;
  return MakeTables(options);
}

// Parsers without stop sequences share their tables.
std::shared_ptr<const ParserTables> TablesFor(const ParsingOptions& options) {
  if (!options.stops.empty()) return MakeTables(options);
  static const std::array shared = {TablesOf(false, false), TablesOf(true, false), TablesOf(false, true),
                                    TablesOf(true, true)};
  return shared[(options.tools ? 1U : 0U) + (options.json ? 2U : 0U)];
}

size_t InitialState(ParserStage stage) {
  switch (stage) {
    case ParserStage::kNone: return kAnswerBegin;
    case ParserStage::kStart: return kReasoningBegin;
    case ParserStage::kReasoning: return kReasoning;
    case ParserStage::kContent: return kAnswer;
    case ParserStage::kToolCalls: return kCalls;
  }
  return kAnswerBegin;
}

}  // namespace

OutputParser::OutputParser(std::shared_ptr<const ParserTables> tables, size_t initial_state)
    : tables_(std::move(tables)) {
  Enter(initial_state);
}

OutputParser::OutputParser(const ParsingOptions& options)
    : OutputParser(TablesFor(options), InitialState(options.stage)) {}

OutputParser OutputParser::Plain(std::vector<std::string> stops) {
  ParserTables tables;
  tables.states[kAnswer].meaning = Meaning::kText;
  AddStops(stops, &tables.states[kAnswer]);
  return {Finished(std::move(tables)), kAnswer};
}

void OutputParser::Enter(size_t state) {
  state_ = &tables_->states[state];
  at_begin_ = state_->drops_first_newlines;
  finished_ = state == kFinished;
  ResetProgress();
}

void OutputParser::ResetProgress() {
  progress_.assign(state_->patterns.size(), {});
  partial_ = false;
  literal_partial_ = false;
}

const OutputParser::Pattern* OutputParser::WholeLiteral(std::string_view bytes, size_t* match_length) const {
  if (literal_partial_ || !state_->literals_are_disjoint) return nullptr;
  for (size_t i = 0; i < progress_.size(); ++i) {
    const Pattern& pattern = state_->patterns[i];
    if (!bytes.starts_with(pattern.literal)) continue;
    *match_length = pattern.literal.size() + progress_[i].newlines;
    return &pattern;
  }
  return nullptr;
}

const OutputParser::Pattern* OutputParser::Step(char c, size_t* match_length) {
  const Pattern* match = nullptr;
  partial_ = false;
  literal_partial_ = false;
  for (size_t i = 0; i < progress_.size(); ++i) {
    const Pattern& pattern = state_->patterns[i];
    Progress& progress = progress_[i];
    if (pattern.newlines && progress.matched == 0 && c == '\n') {
      ++progress.newlines;
      partial_ = true;
      continue;
    }
    size_t matched = progress.matched;
    while (matched > 0 && pattern.literal[matched] != c) matched = pattern.fallback[matched - 1];
    if (pattern.literal[matched] == c) ++matched;
    // The literal did not go on: newlines in front of its failed beginning no longer count (spec: recipe.md §6.2).
    if (matched != progress.matched + 1) progress.newlines = 0;
    progress.matched = matched;
    if (matched > 0) partial_ = literal_partial_ = true;
    if (matched == pattern.literal.size() && match == nullptr) {
      match = &pattern;
      *match_length = matched + progress.newlines;
    }
  }
  return match;
}

size_t OutputParser::LongestPartialMatch() const {
  if (!partial_) return 0;
  uint64_t longest = 0;
  for (const Progress& progress : progress_)
    longest = std::max(longest, progress.newlines + progress.matched);
  return longest;
}

void OutputParser::Push(std::string_view bytes, ParserSink* sink) {
  size_t begin = 0;  // before it everything is classified or held
  for (size_t at = 0; at < bytes.size();) {
    if (finished_) break;
    if (!partial_ && !at_begin_) {
      at = state_->begins.Find(bytes, at);
      if (at == bytes.size()) break;
    }
    size_t match_length = 0;
    const char c = bytes[at];
    const Pattern* match = WholeLiteral(bytes.substr(at), &match_length);
    if (match != nullptr) {
      at += match->literal.size();
    } else {
      match = Step(c, &match_length);
      ++at;
    }
    if (match == nullptr && at_begin_ && c == '\n') {
      begin = at;
      ++classified_;
      ResetProgress();
      continue;
    }
    at_begin_ = false;
    if (match == nullptr) continue;
    Release(num_pending_bytes() + (at - begin) - match_length, bytes, &begin, sink);
    Apply(*match, match_length, sink);
    begin = at;
  }
  if (begin == bytes.size()) return;
  const size_t unclassified = num_pending_bytes() + (bytes.size() - begin);
  Release(unclassified - LongestPartialMatch(), bytes, &begin, sink);
  Hold(bytes.substr(begin));
}

void OutputParser::Finish(ParserSink* sink) {
  size_t begin = 0;
  Release(num_pending_bytes(), {}, &begin, sink);
  Enter(kFinished);
}

void OutputParser::Release(size_t count, std::string_view chunk, size_t* chunk_begin, ParserSink* sink) {
  const size_t from_held = std::min(count, num_pending_bytes());
  if (from_held > 0) {
    Emit(std::string_view(held_).substr(held_begin_, from_held), sink);
    DropHeld(from_held);
  }
  if (count == from_held) return;
  Emit(chunk.substr(*chunk_begin, count - from_held), sink);
  *chunk_begin += count - from_held;
}

void OutputParser::Emit(std::string_view bytes, ParserSink* sink) {
  const uint64_t offset = classified_;
  classified_ += bytes.size();
  switch (state_->meaning) {
    case Meaning::kDropped: return;
    case Meaning::kText:
      in_replaced_run_ = false;
      sink->OnText(bytes, offset);
      return;
    case Meaning::kReplaced:
      if (!in_replaced_run_) sink->OnReplacedText();
      in_replaced_run_ = true;
      return;
    case Meaning::kName: name_ += bytes; return;
    case Meaning::kEscapedArguments:
      escaped_.clear();
      json::AppendEscaped(bytes, &escaped_);
      sink->OnArguments(escaped_);
      return;
    case Meaning::kRawArguments: sink->OnArguments(bytes); return;
    case Meaning::kReasoning:
      in_replaced_run_ = false;
      sink->OnReasoning(bytes, offset);
      return;
  }
}

void OutputParser::Apply(const Pattern& pattern, size_t match_length, ParserSink* sink) {
  const uint64_t offset = classified_;
  classified_ += match_length;
  DropHeld(num_pending_bytes());
  switch (pattern.action) {
    case Action::kDrop: break;
    case Action::kText:
      in_replaced_run_ = false;
      sink->OnText(pattern.literal, offset);
      break;
    case Action::kCall:
      sink->OnCall(name_);
      name_.clear();
      break;
    case Action::kStop: sink->OnStop(pattern.literal); break;
  }
  if (!pattern.arguments.empty()) sink->OnArguments(pattern.arguments);
  Enter(pattern.next);
}

void OutputParser::Hold(std::string_view bytes) {
  // Bytes that were released from the front are overwritten once they are the larger part.
  if (held_begin_ > held_.size() / 2) {
    held_.erase(0, held_begin_);
    held_begin_ = 0;
  }
  held_ += bytes;
}

void OutputParser::DropHeld(size_t count) {
  held_begin_ += count;
  if (held_begin_ < held_.size()) return;
  held_.clear();
  held_begin_ = 0;
}

}  // namespace deepinfer::recipe
