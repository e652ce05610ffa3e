// Splits what the model writes into reasoning, answer text and tool calls, as it arrives (spec: recipe.md §6).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_scan.h"
#include "recipe/conversation.h"

namespace deepinfer::recipe {

/// Takes what the parser recognises, in the order of the text. Views are valid during the call. `offset` counts bytes from the begin
/// of the model's output. Texts are never empty, and how they are cut means nothing.
class ParserSink {
 public:
  virtual ~ParserSink() = default;
  virtual void OnReasoning(std::string_view text, uint64_t offset) = 0;
  virtual void OnText(std::string_view text, uint64_t offset) = 0;
  /// JSON mode: one blank in the answer for a whole run of text around the JSON (spec: recipe.md §17 D3).
  virtual void OnReplacedText() = 0;
  /// A call begins; its name is complete.
  virtual void OnCall(std::string_view name) = 0;
  /// More of the argument text of the last call, `{"k": v, "k2": v2}` in all.
  virtual void OnArguments(std::string_view json) = 0;
  /// A stop sequence ended the answer; what follows is dropped.
  virtual void OnStop(std::string_view stop) = 0;
};

namespace internal {
struct ParserTables;
struct ParserPattern;
struct ParserState;
}  // namespace internal

/// The state machine of recipe.md §6.2 over bytes. The result does not depend on how the bytes are cut; with cuts at characters no
/// piece of output cuts one either. Time is linear in the input whatever it holds, and no memory is taken for a piece that does
/// not end in the beginning of a pattern.
class OutputParser {
 public:
  explicit OutputParser(const ParsingOptions& options);
  /// A parser for plain completions: stop sequences are all it knows.
  static OutputParser Plain(std::vector<std::string> stops);

  void Push(std::string_view bytes, ParserSink* sink);
  /// The output ends: bytes held back as the beginning of a pattern are what they would be without it.
  void Finish(ParserSink* sink);

  /// True once the answer has ended; everything after it is dropped.
  bool finished() const { return finished_; }
  /// Bytes held back because they may begin a pattern.
  size_t num_pending_bytes() const { return held_.size() - held_begin_; }
  /// Bytes that were classified: all that came in but those held back.
  uint64_t num_classified_bytes() const { return classified_; }

 private:
  using Pattern = internal::ParserPattern;

  // How much of a pattern the bytes before now hold.
  struct Progress {
    uint64_t newlines = 0;  // directly before the literal
    size_t matched = 0;     // bytes of the literal
  };

  OutputParser(std::shared_ptr<const internal::ParserTables> tables, size_t initial_state);

  void Enter(size_t state);
  void ResetProgress();
  /// The pattern whose literal `bytes` begin with, where it is certain that it matches first.
  const Pattern* WholeLiteral(std::string_view bytes, size_t* match_length) const;
  const Pattern* Step(char c, size_t* match_length);
  size_t LongestPartialMatch() const;
  /// Gives the first `count` unclassified bytes, those held and then those of `chunk` from `*chunk_begin` on, their default meaning.
  void Release(size_t count, std::string_view chunk, size_t* chunk_begin, ParserSink* sink);
  void Emit(std::string_view bytes, ParserSink* sink);
  void Apply(const Pattern& pattern, size_t match_length, ParserSink* sink);
  void Hold(std::string_view bytes);
  void DropHeld(size_t count);

  std::shared_ptr<const internal::ParserTables> tables_;
  const internal::ParserState* state_ = nullptr;
  std::vector<Progress> progress_;  // one for each pattern of the state
  bool partial_ = false;            // whether any is under way
  bool literal_partial_ = false;    // whether any has a byte of its literal
  bool finished_ = false;
  bool at_begin_ = true;  // no byte since the state was entered
  bool in_replaced_run_ = false;
  std::string held_;  // from held_begin_ on: bytes not yet classified
  size_t held_begin_ = 0;
  uint64_t classified_ = 0;
  std::string name_;
  std::string escaped_;
};

}  // namespace deepinfer::recipe
