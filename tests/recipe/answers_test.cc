// Rules of recipe.md §6 and §7 that no golden line shows: starts and ends, ids of calls, log-probabilities, errors, hostile output.
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recipe/answer_cases.h"
#include "recipe/call_id.h"
#include "recipe/json_lines.h"
#include "recipe/response_parts.h"
#include "tokenizer/test_tokenizers.h"

namespace deepinfer::recipe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Text;
using testing::V41Tokenizer;

constexpr std::string_view kBlock =
    "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n<｜DSML｜ parameter name=\"a\" "
    "string=\"true\">x</｜DSML｜ parameter>\n"
    "</｜DSML｜ invoke>\n</｜DSML｜ calls>";

AnswerOptions Options(ParserStage stage = ParserStage::kNone, std::vector<std::string> stops = {}) {
  AnswerOptions options;
  options.parsing.tools = true;
  options.parsing.stage = stage;
  options.parsing.stops = std::move(stops);
  options.thinking = stage == ParserStage::kStart;
  options.random = [] { return uint64_t{0}; };
  return options;
}

std::vector<int32_t> Ids(std::string_view text) {
  EncodeOptions options;
  options.added_tokens = true;
  return V41Tokenizer()->Encode(text, options).value();
}

Answer AnswerTo(const AnswerOptions& options, std::string_view text) {
  AnswerCollector collector;
  AnswerProcessor processor(options, V41Tokenizer(), &collector);
  processor.Text(text);
  processor.Finish(BackendFinish::kStop);
  return collector.answer();
}

TEST(Goldens, HoldEveryNumberedVector) {
  std::set<std::string> ids;
  for (const AnswerCase& c : ReadAnswerCases("parse.jsonl")) ids.insert(c.id.substr(0, 3));
  for (int n = 1; n <= 42; ++n) {
    if (n == 9) continue;  // below: an output without Ready is no line of the file
    EXPECT_TRUE(ids.contains((n < 10 ? "P0" : "P") + std::to_string(n))) << n;
  }
}

TEST(AnswerProcessor, P09OutputWithoutReadyStartsWithZeroUsageAndNoFingerprint) {
  AnswerCollector collector;
  AnswerProcessor processor(Options(), V41Tokenizer(), &collector);
  processor.Text("Hi");
  processor.Ready("late", {7, 3});
  processor.Finish(BackendFinish::kStop);
  EXPECT_EQ(collector.answer().text, "Hi");
  EXPECT_EQ(collector.answer().start.fingerprint, std::nullopt);
  EXPECT_EQ(collector.answer().start.usage.prompt_tokens, 0);
  ResponseOptions options;
  const json::Value body = ResponseObject(Protocol::kChat, collector.answer(), options);
  EXPECT_TRUE(body.Find("system_fingerprint")->is_null());
}

TEST(AnswerProcessor, IdsNeedATokenizerAndTextDoesNot) {
  AnswerCollector collector;
  AnswerProcessor processor(Options(ParserStage::kStart), nullptr, &collector);
  const int32_t id = 67;
  EXPECT_EQ(processor.Tokens({&id, 1}).code(), StatusCode::kInvalidArgument);
  processor.Text("r</think>a");
  processor.Finish(BackendFinish::kStop);
  EXPECT_EQ(collector.answer().reasoning, "r");
  EXPECT_EQ(collector.answer().reasoning_tokens, std::nullopt);
  const json::Value chat = ResponseObject(Protocol::kChat, collector.answer(), {});
  EXPECT_EQ(chat.Find("usage")->Find("completion_tokens_details"), nullptr);
  const json::Value responses = ResponseObject(Protocol::kResponses, collector.answer(), {});
  EXPECT_EQ(json::Serialize(*responses.Find("usage")->Find("output_tokens_details")),
            R"({"reasoning_tokens":0})");
}

TEST(AnswerProcessor, AStopSequenceEndsTheAnswerAndWhatFollowsIsIgnored) {
  AnswerCollector collector;
  AnswerProcessor processor(Options(ParserStage::kNone, {"STOP", ""}), V41Tokenizer(), &collector);
  processor.Text("Answer ST", 3);
  EXPECT_EQ(collector.answer().text, "Answer ");
  processor.Text("OP ignored", 4);
  EXPECT_TRUE(processor.finished());
  processor.Text("later", 9);
  processor.Finish(BackendFinish::kLength);
  EXPECT_EQ(collector.answer().text, "Answer ");
  EXPECT_EQ(collector.answer().reason, FinishReason::kStopSequence);
  EXPECT_EQ(collector.answer().stop_sequence, "STOP");
  EXPECT_EQ(collector.answer().completion_tokens, 7);
}

TEST(AnswerProcessor, AStopSequenceMayEndWithTheRepairOfAHalfCharacter) {
  AnswerCollector collector;
  AnswerProcessor processor(Options(ParserStage::kNone, {"x\uFFFD"}), V41Tokenizer(), &collector);
  processor.Text("ax\xF0\x9F");
  processor.Finish(BackendFinish::kStop);
  EXPECT_EQ(collector.answer().text, "a");
  EXPECT_EQ(collector.answer().reason, FinishReason::kStopSequence);
}

TEST(AnswerProcessor, AStopSequenceThatIsNoTextNeverMatches) {
  const Answer answer = AnswerTo(Options(ParserStage::kNone, {"\xBD\x9C"}), "a\uFF5Cb");
  EXPECT_EQ(answer.text, "a\uFF5Cb");
  EXPECT_EQ(answer.reason, FinishReason::kStop);
}

TEST(AnswerProcessor, HalfCharactersOfTextAndIdsBecomeOneCharacter) {
  AnswerCollector collector;
  AnswerProcessor processor(Options(ParserStage::kStart), V41Tokenizer(), &collector);
  const std::vector<int32_t> crab = {3574, 102, 225};  // three tokens of one character
  processor.Text("\xF0\x9F");
  processor.Text("\xA6\x80");
  ASSERT_TRUE(processor.Tokens({crab.data(), 1}).ok());
  EXPECT_EQ(collector.answer().reasoning, "🦀");
  ASSERT_TRUE(processor.Tokens({crab.data() + 1, 2}).ok());
  processor.Finish(BackendFinish::kStop);
  EXPECT_EQ(collector.answer().reasoning, "🦀🦀");
  EXPECT_EQ(collector.answer().completion_tokens, 5);
  EXPECT_EQ(collector.answer().reasoning_tokens, 6);  // 3 ids, and 3 tokens that the text is worth
}

TEST(CallIds, HaveTheFormOfTheLibrary) {
  const Answer plain = AnswerTo(Options(), kBlock);
  EXPECT_EQ(plain.calls.at(0).id, "call_00_" + std::string(24, '0'));
  const Answer thoughtless = AnswerTo(Options(ParserStage::kStart), kBlock);
  EXPECT_EQ(thoughtless.calls.at(0).id, "call_00_ET_" + std::string(24, '0'));
  const Answer thought = AnswerTo(Options(ParserStage::kStart), "t</think>" + std::string(kBlock));
  EXPECT_EQ(thought.calls.at(0).id, "call_00_" + std::string(24, '0'));
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string id = MakeCallId(100, false, SystemRandomNumber);
    EXPECT_THAT(id, ::testing::MatchesRegex("call_100_[0-9A-Za-z]{20}[0-9]{4}"));
    seen.insert(id);
  }
  EXPECT_EQ(seen.size(), 1000U);
}

// Token texts of the entries, in order.
std::vector<std::string> Listed(const std::vector<TokenLogprob>& logprobs) {
  std::vector<std::string> out;
  for (const TokenLogprob& entry : logprobs) out.push_back(TokenText(*V41Tokenizer(), entry.id));
  return out;
}

TEST(Logprobs, AreThoseOfContentAndReasoningHoweverTheyArrive) {
  const std::vector<int32_t> ids = Ids("Hm.\n\n</think>\n\nOk 🦀\n\n" + std::string(kBlock));
  std::vector<TokenLogprob> logprobs;
  for (const int32_t id : ids) logprobs.push_back({id, -0.5F, {{id, -0.5F}, {67, -2.0F}}});
  for (const size_t step : {size_t{1}, size_t{2}, size_t{5}, ids.size()}) {
    AnswerCollector collector;
    AnswerProcessor processor(Options(ParserStage::kStart), V41Tokenizer(), &collector);
    for (size_t at = 0; at < ids.size(); at += step) {
      const size_t count = std::min(step, ids.size() - at);
      ASSERT_TRUE(processor.Tokens({ids.data() + at, count}, {logprobs.data() + at, count}).ok());
    }
    processor.Finish(BackendFinish::kStop);
    EXPECT_THAT(Listed(collector.answer().reasoning_logprobs), ElementsAre("H", "m", ".\n\n"));
    EXPECT_THAT(Listed(collector.answer().text_logprobs),
                ElementsAre("Ok", "\\x20\\xf0\\x9f", "\\xa6", "\\x80"));
    ResponseOptions options;
    options.thinking = true;
    options.tokenizer = V41Tokenizer();
    const json::Value chat = ResponseObject(Protocol::kChat, collector.answer(), options);
    const json::Value& entry =
        chat.Find("choices")->AsArray().at(0).Find("logprobs")->Find("content")->AsArray().at(3);
    EXPECT_EQ(
        json::Serialize(entry),
        R"({"token":"\\x80","logprob":-0.5,"bytes":[128],"top_logprobs":[)"
        R"({"token":"\\x80","logprob":-0.5,"bytes":[128]},{"token":"a","logprob":-2.0,"bytes":[97]}]})");
  }
}

TEST(Logprobs, StandInResponsesWhereTheTextStands) {
  EventKeeper keeper;
  ResponseOptions options;
  options.thinking = true;
  options.tokenizer = V41Tokenizer();
  const auto stream = MakeResponseStream(Protocol::kResponses, options, &keeper);
  AnswerCollector collector;
  TeeSink sinks({stream.get(), &collector});
  AnswerProcessor processor(Options(ParserStage::kStart), V41Tokenizer(), &sinks);
  for (const int32_t id : {71, 128822, 72, 73}) {
    const TokenLogprob logprob{id, -1.0F, {}};
    ASSERT_TRUE(processor.Tokens({&id, 1}, {&logprob, 1}).ok());
  }
  processor.Finish(BackendFinish::kStop);
  const std::string f = R"({"token":"f","logprob":-1.0,"bytes":[102],"top_logprobs":[]})";
  const std::string g = R"({"token":"g","logprob":-1.0,"bytes":[103],"top_logprobs":[]})";
  std::vector<std::string> seen;
  for (const Event& event : keeper.events) {
    if (const json::Value* logprobs = event.data.Find("logprobs")) seen.push_back(json::Serialize(*logprobs));
    const json::Value* part = event.data.Find("part");
    if (part != nullptr && part->Find("logprobs") != nullptr) {
      seen.push_back(json::Serialize(*part->Find("logprobs")));
    }
  }
  const std::string both = "[" + f + "," + g + "]";
  EXPECT_THAT(seen, ElementsAre("[]", "[" + f + "]", "[" + g + "]", both, both));
  const json::Value object = ResponseObject(Protocol::kResponses, collector.answer(), options);
  const json::Value& message = object.Find("output")->AsArray().at(1);
  EXPECT_EQ(json::Serialize(*message.Find("content")->AsArray().at(0).Find("logprobs")), both);
  EXPECT_EQ(json::Serialize(*keeper.events.back().data.Find("response")->Find("output")),
            json::Serialize(*object.Find("output")));
}

TEST(Logprobs, StandInTheChatEventThatCarriesTheText) {
  EventKeeper keeper;
  ResponseOptions options;
  options.thinking = true;
  options.tokenizer = V41Tokenizer();
  const auto stream = MakeResponseStream(Protocol::kChat, options, &keeper);
  AnswerProcessor processor(Options(ParserStage::kStart), V41Tokenizer(), stream.get());
  for (const int32_t id : {71, 128822, 72}) {
    const TokenLogprob logprob{id, -1.0F, {}};
    ASSERT_TRUE(processor.Tokens({&id, 1}, {&logprob, 1}).ok());
  }
  ASSERT_EQ(keeper.events.size(), 3U);
  const auto logprobs = [&](size_t i) {
    return json::Serialize(*keeper.events.at(i).data.Find("choices")->AsArray().at(0).Find("logprobs"));
  };
  EXPECT_EQ(logprobs(1),
            R"({"reasoning_content":[{"token":"e","logprob":-1.0,"bytes":[101],"top_logprobs":[]}]})");
  EXPECT_EQ(logprobs(2), R"({"content":[{"token":"f","logprob":-1.0,"bytes":[102],"top_logprobs":[]}]})");
}

TEST(Sse, FramesAndTerminators) {
  std::string out;
  SseWriter writer(&out);
  writer.OnEvent("", R"({"a":1})");
  writer.OnEvent("ping", R"({"type":"ping"})");
  EXPECT_EQ(out, "data: {\"a\":1}\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n");
  EXPECT_EQ(SseTerminator(Protocol::kChat), "data: [DONE]\n\n");
  EXPECT_EQ(SseTerminator(Protocol::kCompletions), "data: [DONE]\n\n");
  EXPECT_EQ(SseTerminator(Protocol::kMessages), "");
  EXPECT_EQ(SseTerminator(Protocol::kResponses), "");
}

TEST(Errors, EndAStreamInTheProtocolsWay) {
  const auto last_event = [](Protocol protocol) {
    EventKeeper keeper;
    const auto stream = MakeResponseStream(protocol, {}, &keeper);
    AnswerProcessor processor(Options(), V41Tokenizer(), stream.get());
    processor.Text("half");
    stream->OnError({.message = "the engine stopped"});
    return keeper.events.back();
  };
  constexpr std::string_view kBody =
      R"({"message":"the engine stopped","type":"internal_error","param":null,"code":"internal_error"})";
  for (const Protocol protocol : {Protocol::kChat, Protocol::kCompletions}) {
    EXPECT_EQ(json::Serialize(last_event(protocol).data), R"({"error":)" + std::string(kBody) + "}");
  }
  const Event messages = last_event(Protocol::kMessages);
  EXPECT_EQ(messages.name, "error");
  EXPECT_EQ(json::Serialize(messages.data), R"({"type":"error","error":)" + std::string(kBody) + "}");
  const Event responses = last_event(Protocol::kResponses);
  EXPECT_EQ(responses.name, "response.failed");
  EXPECT_EQ(Text(*responses.data.Find("response"), "status"), "failed");
  EXPECT_EQ(json::Serialize(*responses.data.Find("response")->Find("error")),
            R"({"code":"internal_error","message":"the engine stopped"})");
}

std::vector<std::string> Names(Protocol protocol, bool thinking, std::string_view text) {
  EventKeeper keeper;
  ResponseOptions options;
  options.thinking = thinking;
  const auto stream = MakeResponseStream(protocol, options, &keeper);
  AnswerProcessor processor(Options(thinking ? ParserStage::kStart : ParserStage::kNone), V41Tokenizer(),
                            stream.get());
  if (!text.empty()) processor.Text(text);
  processor.Finish(BackendFinish::kStop);
  std::vector<std::string> names;
  for (const Event& event : keeper.events) names.push_back(event.name);
  return names;
}

// Spec: recipe.md §14.5.
TEST(StreamVectors, SkeletonsOfTheSpecification) {
  EXPECT_THAT(Names(Protocol::kMessages, true, ""),
              ElementsAre("message_start", "content_block_start", "ping", "content_block_delta",
                          "content_block_stop", "message_delta", "message_stop"));
  EXPECT_THAT(Names(Protocol::kMessages, false, ""),
              ElementsAre("message_start", "message_delta", "message_stop"));
  EXPECT_THAT(Names(Protocol::kResponses, true, ""),
              ElementsAre("response.created", "response.in_progress", "response.completed"));
  // S2, S3, S4
  EXPECT_THAT(Names(Protocol::kMessages, true, "Let me think about this.</think>The answer is 42."),
              ElementsAre("message_start", "content_block_start", "ping", "content_block_delta",
                          "content_block_delta", "content_block_stop", "content_block_start",
                          "content_block_delta", "content_block_stop", "message_delta", "message_stop"));
  EXPECT_THAT(Names(Protocol::kMessages, false, "Hello there!"),
              ElementsAre("message_start", "content_block_start", "ping", "content_block_delta",
                          "content_block_stop", "message_delta", "message_stop"));
  EXPECT_EQ(Names(Protocol::kResponses, true, "Let me think about this.</think>The answer is 42.").size(),
            15U);
  // S6: a model that never closes thinking
  EXPECT_THAT(Names(Protocol::kResponses, true, "never closed"),
              ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                          "response.content_part.added", "response.reasoning_text.delta",
                          "response.reasoning_text.done", "response.content_part.done",
                          "response.output_item.done", "response.completed"));
}

// S1 and S5: a call with its usage, and one of a namespace.
TEST(StreamVectors, CallsWithUsageAndNamespace) {
  EventKeeper keeper;
  const auto stream = MakeResponseStream(Protocol::kChat, {}, &keeper);
  AnswerProcessor processor(Options(), V41Tokenizer(), stream.get());
  processor.Ready("fp", {4, 0});
  processor.Text(kBlock, 20);
  processor.Finish(BackendFinish::kStop);
  const json::Value& last = keeper.events.back().data;
  EXPECT_EQ(Text(last.Find("choices")->AsArray().at(0), "finish_reason"), "tool_calls");
  EXPECT_EQ(json::Serialize(*last.Find("usage")->Find("total_tokens")), "24");

  std::string block(kBlock);
  block.replace(block.find("\"f\""), 3, "\"weather::current\"");
  ResponseOptions options;
  options.namespaces = {{"weather::current", "weather", "current"}};
  const json::Value body = ResponseObject(Protocol::kResponses, AnswerTo(Options(), block), options);
  const json::Value& item = body.Find("output")->AsArray().at(0);
  EXPECT_EQ(Text(item, "name"), "current");
  EXPECT_EQ(Text(item, "namespace"), "weather");
}

std::string Decoded(std::string_view arguments, size_t step) {
  std::string input;
  CustomInputDecoder decoder;
  for (size_t at = 0; at < arguments.size(); at += step) decoder.Push(arguments.substr(at, step), &input);
  decoder.Finish(&input);
  return input;
}

TEST(CustomInput, IsDecodedWhileItGrowsOrGivenAsItIs) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {R"({"input": "a\n\"b\"\\c\/\u00e9\ud83e\udd80"})", "a\n\"b\"\\c/é🦀"},
      {R"({"input": "x", "foo": "y"})", "x"},
      {R"({"input":   "blank"})", "blank"},
      {R"({"input": {"a":1}})", R"({"input": {"a":1}})"},
      {R"({"foo": "x"})", R"({"foo": "x"})"},
      {R"({"input2": "x"})", R"({"input2": "x"})"},
      {R"({})", R"({})"},
      {R"({"inp)", R"({"inp)"},
      {R"({"input": "cut\)", "cut"},
      {R"({"input": "cut\u00)", "cut"},
      {R"({"input": "\q\uZ\ud83eZ\udd80\ud83e\n"})", "\\q\\uZ\uFFFDZ\uFFFD\uFFFD\n"},
      {R"({"input": "\ud83e\ud83e\udd80"})", "\uFFFD🦀"},
      {R"({"input": "\u12"})", "\\u12"},
  };
  for (const auto& [arguments, input] : cases) {
    for (const size_t step : {size_t{1}, size_t{2}, size_t{3}, arguments.size()}) {
      EXPECT_EQ(Decoded(arguments, step), input) << arguments << " by " << step;
    }
  }
}

TEST(Completions, KeepEveryCharacterAndEchoThePrompt) {
  AnswerOptions options = Options(ParserStage::kNone, {"END"});
  options.plain = true;
  ResponseOptions response;
  response.id = "c1";
  response.model = "deepseek-flash";
  response.echoed_prompt = "é =";
  response.tokenizer = V41Tokenizer();
  AnswerCollector collector;
  EventKeeper keeper;
  const auto stream = MakeResponseStream(Protocol::kCompletions, response, &keeper);
  TeeSink tee({&collector, stream.get()});
  AnswerProcessor processor(options, V41Tokenizer(), &tee);
  processor.Ready("fp", {3, 1});
  processor.Text("\n\n</think><｜DSML｜ calls>");
  const int32_t id = 67;
  const TokenLogprob logprob{id, -1.0F, {{68, -1.5F}}};
  ASSERT_TRUE(processor.Tokens({&id, 1}, {&logprob, 1}).ok());
  processor.Text("END tail");
  const json::Value body = ResponseObject(Protocol::kCompletions, collector.answer(), response);
  EXPECT_EQ(
      json::Serialize(body),
      R"({"id":"c1","object":"text_completion","created":0,"model":"deepseek-flash","system_fingerprint":"fp",)"
      R"("choices":[{"text":"é =\n\n</think><｜DSML｜ calls>a","index":0,"logprobs":{"tokens":["a"],)"
      R"("token_logprobs":[-1.0],"top_logprobs":[{"b":-1.5}],"text_offset":[3]},"finish_reason":"stop"}],)"
      R"("usage":{"prompt_tokens":3,"completion_tokens":3,"total_tokens":6,"prompt_tokens_details":)"
      R"({"cached_tokens":1},"prompt_cache_hit_tokens":1,"prompt_cache_miss_tokens":2}})");
  std::string text;
  for (const Event& event : keeper.events) text += Text(event.data.Find("choices")->AsArray().at(0), "text");
  EXPECT_EQ(text, "é =\n\n</think><｜DSML｜ calls>a");
  EXPECT_NE(keeper.events.back().data.Find("usage"), nullptr);
}

// Each output would take hours if any step looked back at what it holds.
TEST(HostileOutput, TakesLinearTime) {
  constexpr size_t kSize = 1 << 20;
  std::string stop(kSize / 2, 'a');
  stop += 'b';
  const std::string many_newlines(kSize, '\n'), many_opens(kSize, '<'), many_letters(kSize, 'a');
  std::string thinks, cuts;
  while (thinks.size() < kSize) thinks += "a</think>";
  while (cuts.size() < kSize) cuts += "\n<｜DSML";
  for (const std::string& text : {many_newlines, many_opens, many_letters, thinks, cuts}) {
    for (const ParserStage stage : {ParserStage::kContent, ParserStage::kReasoning}) {
      AnswerCollector collector;
      AnswerProcessor processor(Options(stage, {stop}), V41Tokenizer(), &collector);
      for (size_t at = 0; at < text.size(); ++at) processor.Text(std::string_view(text).substr(at, 1));
      processor.Finish(BackendFinish::kStop);
      EXPECT_LE(collector.answer().text.size() + collector.answer().reasoning.size(), kSize + 16);
    }
  }
  const std::vector<int32_t> ids = Ids(thinks);
  AnswerOptions options = Options(ParserStage::kStart);
  AnswerCollector collector;
  AnswerProcessor processor(options, V41Tokenizer(), &collector);
  const std::vector<TokenLogprob> logprobs(ids.size());
  ASSERT_TRUE(processor.Tokens(ids, logprobs).ok());
  processor.Finish(BackendFinish::kStop);
  EXPECT_EQ(collector.answer().completion_tokens, static_cast<int64_t>(ids.size()));
}

TEST(OutputParser, HoldsBackNoMoreThanTheBeginningOfAPattern) {
  ParsingOptions options;
  options.tools = true;
  OutputParser parser(options);
  class Sink : public ParserSink {
   public:
    void OnReasoning(std::string_view, uint64_t) override {}
    void OnText(std::string_view text, uint64_t offset) override { pieces.emplace_back(text, offset); }
    void OnReplacedText() override {}
    void OnCall(std::string_view) override {}
    void OnArguments(std::string_view) override {}
    void OnStop(std::string_view) override {}
    std::vector<std::pair<std::string, uint64_t>> pieces;
  } sink;
  parser.Push("\n\n2 \n\n<｜D", &sink);
  EXPECT_EQ(parser.num_pending_bytes(), 7U);
  EXPECT_EQ(parser.num_classified_bytes(), 4U);
  parser.Push("x", &sink);
  EXPECT_EQ(parser.num_pending_bytes(), 0U);
  parser.Finish(&sink);
  EXPECT_TRUE(parser.finished());
  EXPECT_THAT(sink.pieces, ElementsAre(std::pair<std::string, uint64_t>{"2 ", 2},
                                       std::pair<std::string, uint64_t>{"\n\n<｜D", 4},
                                       std::pair<std::string, uint64_t>{"x", 11}));
}

}  // namespace
}  // namespace deepinfer::recipe
