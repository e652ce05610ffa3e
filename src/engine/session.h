// What a session remembers between answers. Internal to the module.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "model/backbone.h"

namespace deepinfer {

/// A sequence and the tokens it has taken in.
struct HeldSequence {
  std::unique_ptr<model::Sequence> sequence;
  std::vector<int32_t> ids;
  bool exact = true;  // no row was computed in a mode that approximates

  explicit operator bool() const { return sequence != nullptr; }
};

/// Two states: after the last answer, and before the last token of the last prompt. The second one serves prompts that leave the
/// answer's reasoning out, repeat the prompt, or sample it again: their first tokens are the same, but rows of a prompt cannot be
/// dropped (spec: design.md §4 "Rollback").
class SessionState : public Session {
 public:
  explicit SessionState(const void* owner) : owner_(owner) {}

  int64_t length() const override { return static_cast<int64_t>(end_.ids.size()); }
  /// The engine that made it.
  const void* owner() const { return owner_; }

  /// Gives up the state that has most in common with `prompt`, cut to what both have; empty when nothing can be used. At least the
  /// prompt's last token is left to be computed. `exact`: only states without approximation. The session holds no end state until
  /// Keep.
  Result<HeldSequence> Take(std::span<const int32_t> prompt, bool exact);
  /// Remembers a copy of the state before the last token of a prompt.
  Status RememberPrompt(const HeldSequence& held);
  /// The state after an answer.
  void Keep(HeldSequence held) { end_ = std::move(held); }

 private:
  const void* owner_;
  HeldSequence end_;
  HeldSequence before_last_token_;
};

}  // namespace deepinfer
