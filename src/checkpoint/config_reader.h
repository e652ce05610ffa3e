// Typed look-ups in a parsed `config.json` under all its spellings. Internal to the checkpoint module.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace deepinfer {

/// A place where a key may stand: an object (or null when the file has none) and the key in it.
struct ConfigPlace {
  const json::Value* object;
  std::string_view key;
};

/// Looks keys up in several places that must agree, and keeps the first error; later calls then do nothing.
class ConfigReader {
 public:
  using Places = std::initializer_list<ConfigPlace>;
  enum class Need : uint8_t { kRequired, kOptional };

  /// The value of the first place that has one. Null counts as absent. Two places with different values are an error.
  const json::Value* Find(Places places);

  // Readers: leave `out` as it is when the key is absent and optional. Integers must be written as integers and fit `out`.
  void Get(Places places, Need need, int* out);
  void Get(Places places, Need need, int64_t* out);
  void Get(Places places, Need need, double* out);
  void Get(Places places, Need need, bool* out);
  void Get(Places places, Need need, std::string* out);
  void Get(Places places, Need need, std::vector<int>* out);
  void Get(Places places, Need need, std::vector<int64_t>* out);

  /// An optional key that can only have this value.
  void Expect(Places places, const json::Value& value);

  void Fail(std::string message, std::string_view key);
  const Status& status() const { return status_; }

 private:
  const json::Value* FindOrFail(Places places, Need need);
  template <typename T>
  void GetInteger(Places places, Need need, T* out);
  template <typename T>
  void GetList(Places places, Need need, std::vector<T>* out);

  Status status_;
};

/// Whether two JSON values mean the same: numbers by value (10000 = 10000.0), all else by content.
bool SameJson(const json::Value& a, const json::Value& b);

}  // namespace deepinfer
