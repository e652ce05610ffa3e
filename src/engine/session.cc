#include "engine/session.h"

#include <algorithm>

namespace deepinfer {
namespace {

/// Tokens of `held` that serve a prompt; 0 = none.
int64_t UsableLength(const HeldSequence& held, std::span<const int32_t> prompt, bool exact) {
  if (!held || (exact && !held.exact)) return 0;
  const int64_t common =
      std::mismatch(held.ids.begin(), held.ids.end(), prompt.begin(), prompt.end()).first - held.ids.begin();
  const int64_t drop = static_cast<int64_t>(held.ids.size()) - common;
  const bool can_drop = drop <= model::kMaxRollback && common >= held.sequence->sealed();
  return drop == 0 || can_drop ? common : 0;
}

Result<HeldSequence> Copy(const HeldSequence& held) {
  HeldSequence copy;
  DEEPINFER_ASSIGN_OR_RETURN(copy.sequence, held.sequence->Clone());
  copy.ids = held.ids;
  copy.exact = held.exact;
  return copy;
}

}  // namespace

Result<HeldSequence> SessionState::Take(std::span<const int32_t> prompt, bool exact) {
  const std::span<const int32_t> usable_prompt = prompt.first(prompt.size() - 1);
  const int64_t end_length = UsableLength(end_, usable_prompt, exact);
  const int64_t prompt_length = UsableLength(before_last_token_, usable_prompt, exact);
  HeldSequence end = std::exchange(end_, {});
  if (std::max(end_length, prompt_length) == 0) return HeldSequence{};
  if (prompt_length > end_length) return Copy(before_last_token_);
  DEEPINFER_RETURN_IF_ERROR(end.sequence->Rollback(static_cast<int64_t>(end.ids.size()) - end_length));
  end.ids.resize(static_cast<size_t>(end_length));
  return end;
}

Status SessionState::RememberPrompt(const HeldSequence& held) {
  DEEPINFER_ASSIGN_OR_RETURN(before_last_token_, Copy(held));
  before_last_token_.sequence->SealPrompt();
  return OkStatus();
}

}  // namespace deepinfer
