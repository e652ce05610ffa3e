#include "scheduler/config.h"

#include <fmt/format.h>

#include "scheduler/step_plan.h"

namespace deepinfer::scheduler {
namespace {

Status CheckRange(const char* field, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return OkStatus();
  return InvalidArgument(fmt::format("must be in [{}, {}], not {}", least, most, value), field);
}

}  // namespace

Status SchedulerConfig::Validate() const {
  constexpr int32_t kMost = 1 << 20;
  constexpr int64_t kMostUs = int64_t{1} << 50;
  DEEPINFER_RETURN_IF_ERROR(CheckRange("max_sequences", max_sequences, 1, kMost));
  if (num_slots != 0) DEEPINFER_RETURN_IF_ERROR(CheckRange("num_slots", num_slots, max_sequences, kMost * 2));
  DEEPINFER_RETURN_IF_ERROR(CheckRange("max_waiting", max_waiting, 1, int64_t{1} << 32));
  DEEPINFER_RETURN_IF_ERROR(CheckRange("context_limit", context_limit, 1, int64_t{1} << 30));
  DEEPINFER_RETURN_IF_ERROR(CheckRange("exact_halo_rows", exact_halo_rows, 1, int64_t{1} << 30));
  DEEPINFER_RETURN_IF_ERROR(CheckRange("draft_tokens", draft_tokens, 0, kMaxDraftTokens));
  DEEPINFER_RETURN_IF_ERROR(CheckRange("max_steps_in_flight", max_steps_in_flight, 1, 2));
  DEEPINFER_RETURN_IF_ERROR(CheckRange("min_prompt_rows", min_prompt_rows, 1, kMost));
  // One decode row with its drafts must fit beside the rows that prompts are promised.
  DEEPINFER_RETURN_IF_ERROR(
      CheckRange("max_rows_per_step", max_rows_per_step, min_prompt_rows + draft_tokens + 1, kMost));
  if (max_prompt_rows_beside_decode != 0) {
    DEEPINFER_RETURN_IF_ERROR(CheckRange("max_prompt_rows_beside_decode", max_prompt_rows_beside_decode,
                                         min_prompt_rows, max_rows_per_step));
  }
  DEEPINFER_RETURN_IF_ERROR(CheckRange("decode_stall_us", decode_stall_us, 0, kMostUs));
  DEEPINFER_RETURN_IF_ERROR(CheckRange("aging_us", aging_us, 0, kMostUs));
  DEEPINFER_RETURN_IF_ERROR(CheckRange("urgent_us", urgent_us, 0, kMostUs));
  return CheckRange("single_flight_min_rows", single_flight_min_rows, 1, kMost);
}

}  // namespace deepinfer::scheduler
