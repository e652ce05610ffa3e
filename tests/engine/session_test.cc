// Sessions: nothing is computed twice, and nothing changes.
#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "demo_engine.h"
#include "recipe/prompt.h"
#include "recipe/response.h"

namespace deepinfer {
namespace {

using namespace deepinfer::testing;  // NOLINT: helpers of this folder

class SessionReuse : public ::testing::Test {
 protected:
  /// Runs a prompt in the session and alone; both must agree bit for bit. Returns the answer.
  GenerationResult Check(const GenerationRequest& request, int64_t want_cached) {
    const GenerationResult answer = MustGenerate(engine_, request, nullptr, session_.get());
    EXPECT_EQ(answer.cached_tokens, want_cached);
    ExpectSameAnswer(answer, MustGenerate(engine_, request));
    return answer;
  }

  GenerationRequest Prompt(std::vector<int32_t> ids, int64_t max_tokens = 12) const {
    GenerationRequest request;
    request.prompt_ids = std::move(ids);
    request.sampling.temperature = 0;
    request.max_tokens = max_tokens;
    request.logprobs = 2;
    return request;
  }
  std::vector<int32_t> Encode(std::string_view text) const {
    return *engine_.tokenizer().Encode(text, {.added_tokens = true});
  }
  std::vector<int32_t> Chat(const recipe::Conversation& conversation) const {
    return *recipe::EncodePrompt(*recipe::RenderPrompt(conversation), engine_.tokenizer());
  }
  static int64_t Size(const std::vector<int32_t>& ids) { return static_cast<int64_t>(ids.size()); }

  Engine& engine_ = Demo();
  std::unique_ptr<Session> session_ = engine_.NewSession();
};

void AddUser(std::string text, recipe::Conversation* conversation) {
  conversation->messages.emplace_back(recipe::UserMessage{.content = {std::move(text), {}}});
}

void AddAnswer(std::string text, std::optional<std::string> reasoning, recipe::Conversation* conversation) {
  recipe::AssistantMessage message;
  message.content = std::move(text);
  message.reasoning = std::move(reasoning);
  conversation->messages.emplace_back(std::move(message));
}

std::vector<int32_t> Joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST_F(SessionReuse, NextTurnComputesOnlyWhatIsNew) {
  recipe::Conversation conversation;
  conversation.thinking = false;
  AddUser("My name is Vand.", &conversation);
  int64_t cached = 0;
  for (const char* question : {"What is my name?", "My dog is called Dawox.", "What is my pet called?"}) {
    const auto prompt = Chat(conversation);
    const GenerationResult answer = Check(Prompt(prompt, 40), cached);
    ASSERT_EQ(answer.finish_reason, FinishReason::kStop);
    EXPECT_EQ(session_->length(), Size(prompt) + Size(answer.output_ids) - 1) << "the last token was not fed";
    cached = session_->length();
    AddAnswer(answer.text, {}, &conversation);
    AddUser(question, &conversation);
  }
}

TEST_F(SessionReuse, DroppedReasoningKeepsThePromptBeforeIt) {
  recipe::Conversation conversation;
  AddUser("What is the opposite of hard?", &conversation);
  const auto first = Chat(conversation);
  const GenerationResult answer = Check(Prompt(first, 40), 0);
  recipe::AnswerOptions options;
  options.thinking = true;
  options.parsing.stage = recipe::ParserStage::kStart;
  recipe::AnswerCollector collector;
  recipe::AnswerProcessor processor(options, nullptr, &collector);
  processor.Text(answer.text);
  processor.End();
  ASSERT_FALSE(collector.answer().reasoning.empty());
  AddAnswer(collector.answer().text, collector.answer().reasoning, &conversation);
  AddUser("What is the capital of Turkey?", &conversation);
  // The next prompt has </think> in place of <think>: all but that token is kept.
  Check(Prompt(Chat(conversation), 40), Size(first) - 1);
}

TEST_F(SessionReuse, TheSamePromptAgain) {
  const auto prompt = Encode("<｜begin▁of▁sentence｜><｜User｜>17 + 10 = ?<｜Assistant｜></think>");
  Check(Prompt(prompt), 0);
  GenerationRequest again = Prompt(prompt);
  again.sampling.temperature = 1.3;
  for (uint32_t stream = 0; stream < 3; ++stream) {
    again.stream = stream;
    Check(again, Size(prompt) - 1);
  }
}

TEST_F(SessionReuse, UpToTwelveTokensOfAnAnswerAreTakenBack) {
  const auto prompt = Encode(
      "<｜begin▁of▁sentence｜><｜User｜>Tell me a story about a rabbit called Jeta.<｜Assistant｜></think>");
  for (const int64_t drop : {1, 5, 12, 13}) {
    session_ = engine_.NewSession();
    const GenerationResult answer = Check(Prompt(prompt, 30), 0);
    ASSERT_EQ(answer.output_ids.size(), 30U);
    const int64_t kept = 29 - drop;  // 29 of the 30 were fed
    auto next = Joined(prompt, {answer.output_ids.begin(), answer.output_ids.begin() + kept});
    next.push_back(answer.output_ids[static_cast<size_t>(kept)] == 400 ? 401 : 400);
    // Beyond twelve the prompt is what remains.
    Check(Prompt(next), drop <= model::kMaxRollback ? Size(prompt) + kept : Size(prompt) - 1);
  }
}

TEST_F(SessionReuse, AnotherConversationStartsAnew) {
  Check(Prompt(Encode("<｜begin▁of▁sentence｜><｜User｜>17 + 10 = ?<｜Assistant｜></think>")), 0);
  Check(Prompt(Encode("<｜begin▁of▁sentence｜><｜System｜>You are a friendly "
                      "helper.<｜User｜>Hi<｜Assistant｜></think>")),
        0);
}

TEST_F(SessionReuse, AShorterPromptIsNotServedFromTheMiddleOfAPrompt) {
  const auto prompt =
      Encode("<｜begin▁of▁sentence｜><｜User｜>Spell the word \"lamp\".<｜Assistant｜></think>");
  Check(Prompt(prompt), 0);
  Check(Prompt({prompt.begin(), prompt.end() - 3}), 0);
}

TEST_F(SessionReuse, ALongContinuationOfAShortBegin) {
  // More new rows than the halo of exact_halo: decoder layers skip the rows between what they know and the end of the prompt.
  const auto& long_prompt = FindTranscript("hidden_600-016").prompt_ids;
  const std::vector<int32_t> begin(long_prompt.begin(), long_prompt.begin() + 40);
  Check(Prompt(begin, 1), 0);
  Check(Prompt(long_prompt), 40);
  // And a continuation that starts inside the halo.
  const std::vector<int32_t> most(long_prompt.begin(), long_prompt.end() - 100);
  session_ = engine_.NewSession();
  Check(Prompt(most, 1), 0);
  Check(Prompt(long_prompt), Size(most));
}

TEST_F(SessionReuse, ManyShortTurnsPastTheWindow) {
  std::vector<int32_t> prompt = Encode("<｜begin▁of▁sentence｜>");
  int64_t cached = 0;
  for (int turn = 0; turn < 6; ++turn) {
    prompt = Joined(
        prompt,
        Encode("<｜User｜>Spell the word \"wagon\" and tell me a story about it.<｜Assistant｜></think>"));
    GenerationRequest request = Prompt(prompt, 15);
    request.ignore_eos = true;
    const GenerationResult answer = Check(request, cached);
    prompt = Joined(prompt, answer.output_ids);
    cached = session_->length();
  }
  EXPECT_GT(cached, 3 * engine_.config().sliding_window);
}

TEST_F(SessionReuse, ApproximateStateIsNotUsedForExactRequests) {
  const auto& ids = FindTranscript("hidden_short-000").prompt_ids;
  GenerationRequest bounded = Prompt(ids, 4);
  bounded.prefill = model::PrefillMode::kBoundedReplay;
  EXPECT_EQ(MustGenerate(engine_, bounded, nullptr, session_.get()).cached_tokens, 0);
  EXPECT_EQ(MustGenerate(engine_, bounded, nullptr, session_.get()).cached_tokens, Size(ids) - 1);
  Check(Prompt(ids, 4), 0);
  Check(Prompt(ids, 4), Size(ids) - 1);
  EXPECT_EQ(MustGenerate(engine_, bounded, nullptr, session_.get()).cached_tokens, Size(ids) - 1)
      << "exact state serves all";
}

TEST_F(SessionReuse, CancelledAnswersLeaveASoundSession) {
  const auto prompt = Encode("<｜begin▁of▁sentence｜><｜User｜>17 + 10 = ?<｜Assistant｜></think>");
  std::atomic<bool> stop = false;
  // In the middle of the answer: its tokens are kept.
  int calls = 0;
  const GenerationResult cut =
      MustGenerate(engine_, Prompt(prompt), [&](const OutputToken&) { return ++calls < 4; }, session_.get());
  EXPECT_EQ(cut.finish_reason, FinishReason::kCancelled);
  Check(Prompt(Joined(prompt, cut.output_ids)), Size(prompt) + 3);
  // In the middle of a prompt: a state that was cut short there would not do.
  stop = true;
  const auto& long_prompt = FindTranscript("hidden_short-000").prompt_ids;
  EXPECT_EQ(MustGenerate(engine_, Prompt(long_prompt), nullptr, session_.get(), &stop).finish_reason,
            FinishReason::kCancelled);
  Check(Prompt(long_prompt), 0);
}

TEST_F(SessionReuse, CancelledWhileThePromptIsRead) {
  Engine& engine = LoadDemo("", 2, 32);
  const auto session = engine.NewSession();
  const auto& long_prompt = FindTranscript("hidden_600-016").prompt_ids;
  std::atomic<bool> stop = false;
  // Usually lands between two of the 18 chunks; the result must be right wherever it lands.
  GenerationRequest request = Prompt(long_prompt, 3);
  std::thread timer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    stop = true;
  });
  const GenerationResult cut = MustGenerate(engine, request, nullptr, session.get(), &stop);
  timer.join();
  stop = false;
  const GenerationResult again = MustGenerate(engine, request, nullptr, session.get(), &stop);
  ExpectSameAnswer(again, MustGenerate(engine, request));
  if (cut.output_ids.empty()) {
    EXPECT_EQ(again.cached_tokens, 0);
  }
}

TEST(SessionOwner, AnotherEnginesSessionIsRefused) {
  const auto session = LoadDemo("", 1, 7).NewSession();
  EXPECT_EQ(Demo().Generate(Greedy("arith-000"), nullptr, session.get()).status().where(), "session");
}

}  // namespace
}  // namespace deepinfer
