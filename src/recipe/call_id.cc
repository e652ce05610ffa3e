#include "recipe/call_id.h"

#include <unistd.h>

#include <array>
#include <random>
#include <string_view>

#include <fmt/format.h>

namespace deepinfer::recipe {
namespace {

void AppendSymbols(std::string_view symbols, int count, uint64_t number, std::string* out) {
  for (int i = 0; i < count; ++i) {
    *out += symbols[number % symbols.size()];
    number /= symbols.size();
  }
}

}  // namespace

uint64_t SystemRandomNumber() {
  // One call of the kernel gives numbers for ten ids; 256 bytes are the most it gives at once.
  thread_local std::array<uint64_t, 32> numbers;
  thread_local size_t used = numbers.size();
  if (used == numbers.size()) {
    if (getentropy(numbers.data(), sizeof(numbers)) != 0) {
      std::random_device device;
      for (uint64_t& number : numbers) number = uint64_t{device()} << 32 | device();
    }
    used = 0;
  }
  return numbers[used++];
}

std::string MakeCallId(int64_t index, bool empty_thinking, const RandomSource& random) {
  constexpr std::string_view kSymbols = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::string id = fmt::format("call_{:02}_{}", index, empty_thinking ? "ET_" : "");
  // Ten symbols of 62 use 60 of the 64 bits.
  AppendSymbols(kSymbols, 10, random(), &id);
  AppendSymbols(kSymbols, 10, random(), &id);
  AppendSymbols(kSymbols.substr(0, 10), 4, random(), &id);
  return id;
}

}  // namespace deepinfer::recipe
