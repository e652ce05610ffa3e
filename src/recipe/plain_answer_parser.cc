// The states Reasoning and Common of recipe.md §6.2 without tools, JSON mode and stop strings, byte by byte.
#include "recipe/plain_chat.h"

namespace deepinfer::recipe::plain {
namespace {

constexpr std::string_view kEndOfThinking = TokenRoleText(TokenRole::kThinkEnd);

}  // namespace

void AnswerParser::Write(std::string_view text, Delta* delta) {
  (in_reasoning_ ? delta->reasoning : delta->content) += text;
}

void AnswerParser::Release(Delta* delta) {
  Write(std::string(newlines_, '\n'), delta);
  Write(kEndOfThinking.substr(0, matched_), delta);
  newlines_ = 0;
  matched_ = 0;
}

void AnswerParser::Take(char byte, Delta* delta) {
  if (leading_ && byte == '\n' && matched_ == 0) return;
  leading_ = false;
  if (byte == kEndOfThinking[matched_]) {
    if (++matched_ < kEndOfThinking.size()) return;
    // The end of the reasoning; anywhere else a stray token that is dropped.
    leading_ = in_reasoning_;
    in_reasoning_ = false;
    newlines_ = 0;
    matched_ = 0;
    return;
  }
  if (matched_ > 0) {
    // `<` occurs only at the begin of the literal, so a failed match can start again with this byte alone. A newline right behind
    // a failed match is not counted as one before the literal: the library does the same.
    Release(delta);
    if (byte == kEndOfThinking[0]) {
      matched_ = 1;
    } else {
      Write({&byte, 1}, delta);
    }
    return;
  }
  if (in_reasoning_ && byte == '\n') {
    ++newlines_;
    return;
  }
  Release(delta);
  Write({&byte, 1}, delta);
}

AnswerParser::Delta AnswerParser::Push(std::string_view text) {
  Delta delta;
  for (const char byte : text) Take(byte, &delta);
  return delta;
}

AnswerParser::Delta AnswerParser::Finish() {
  Delta delta;
  Release(&delta);
  return delta;
}

AnswerParser::Delta SplitAnswer(std::string_view text, bool thinking) {
  AnswerParser parser(thinking);
  AnswerParser::Delta answer = parser.Push(text);
  const AnswerParser::Delta rest = parser.Finish();
  answer.reasoning += rest.reasoning;
  answer.content += rest.content;
  return answer;
}

}  // namespace deepinfer::recipe::plain
