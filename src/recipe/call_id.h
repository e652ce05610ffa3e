// Ids of tool calls (spec: recipe.md §6.4).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace deepinfer::recipe {

/// A source of uniformly distributed 64-bit numbers.
using RandomSource = std::function<uint64_t()>;

/// A number of the operating system's generator, which nobody can guess: ids must be like that where they find exact replies in a
/// shared store.
uint64_t SystemRandomNumber();

/// `call_NN_…` with a random end of 20 letters and digits and 4 digits; `call_NN_ET_…` when the call came without any thought in
/// thinking mode, which excuses the missing reasoning when the client sends the turn back (spec: recipe.md §8.3).
std::string MakeCallId(int64_t index, bool empty_thinking, const RandomSource& random);

}  // namespace deepinfer::recipe
