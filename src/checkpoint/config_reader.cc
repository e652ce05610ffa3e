#include "checkpoint/config_reader.h"

#include <limits>
#include <utility>

namespace deepinfer {
namespace {

// Longest list any key may have: layers of the largest accepted model plus its draft stages.
constexpr size_t kMaxListLength = 1024;

template <typename T>
bool ReadInteger(const json::Value& value, T* out) {
  int64_t wide = 0;
  if (!value.GetInt64(&wide) || wide < std::numeric_limits<T>::min() ||
      wide > std::numeric_limits<T>::max()) {
    return false;
  }
  *out = static_cast<T>(wide);
  return true;
}

std::string_view KeyOf(ConfigReader::Places places) { return places.begin()->key; }

}  // namespace

bool SameJson(const json::Value& a, const json::Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_integer() && b.is_integer()) return json::Serialize(a) == json::Serialize(b);
    return a.AsDouble() == b.AsDouble();
  }
  if (a.is_array() && b.is_array()) {
    const json::Array& x = a.AsArray();
    const json::Array& y = b.AsArray();
    if (x.size() != y.size()) return false;
    for (size_t i = 0; i < x.size(); ++i) {
      if (!SameJson(x[i], y[i])) return false;
    }
    return true;
  }
  return a.type() == b.type() && json::Serialize(a) == json::Serialize(b);
}

void ConfigReader::Fail(std::string message, std::string_view key) {
  if (status_.ok()) status_ = DataLoss(std::move(message), std::string(key));
}

const json::Value* ConfigReader::Find(Places places) {
  const json::Value* found = nullptr;
  std::string_view found_key;
  for (const ConfigPlace& place : places) {
    const json::Value* value = place.object == nullptr ? nullptr : place.object->Find(place.key);
    if (value == nullptr || value->is_null()) continue;
    if (found == nullptr) {
      found = value;
      found_key = place.key;
    } else if (!SameJson(*found, *value)) {
      Fail("two spellings of one setting have different values (\"" + std::string(found_key) + "\" and \"" +
               std::string(place.key) + "\")",
           KeyOf(places));
      return nullptr;
    }
  }
  return found;
}

const json::Value* ConfigReader::FindOrFail(Places places, Need need) {
  if (!status_.ok()) return nullptr;
  const json::Value* value = Find(places);
  if (value == nullptr && need == Need::kRequired) Fail("the configuration lacks a key", KeyOf(places));
  return status_.ok() ? value : nullptr;
}

template <typename T>
void ConfigReader::GetInteger(Places places, Need need, T* out) {
  const json::Value* value = FindOrFail(places, need);
  if (value != nullptr && !ReadInteger(*value, out)) Fail("not an integer in range", KeyOf(places));
}

template <typename T>
void ConfigReader::GetList(Places places, Need need, std::vector<T>* out) {
  const json::Value* value = FindOrFail(places, need);
  if (value == nullptr) return;
  if (!value->is_array()) return Fail("not a list of integers", KeyOf(places));
  const json::Array& items = value->AsArray();
  if (items.size() > kMaxListLength) return Fail("the list is too long", KeyOf(places));
  out->assign(items.size(), 0);
  for (size_t i = 0; i < items.size(); ++i) {
    if (!ReadInteger(items[i], &(*out)[i])) return Fail("not a list of integers", KeyOf(places));
  }
}

void ConfigReader::Get(Places places, Need need, int* out) { GetInteger(places, need, out); }
void ConfigReader::Get(Places places, Need need, int64_t* out) { GetInteger(places, need, out); }
void ConfigReader::Get(Places places, Need need, std::vector<int>* out) { GetList(places, need, out); }
void ConfigReader::Get(Places places, Need need, std::vector<int64_t>* out) { GetList(places, need, out); }

void ConfigReader::Get(Places places, Need need, double* out) {
  const json::Value* value = FindOrFail(places, need);
  if (value == nullptr) return;
  if (!value->is_number()) return Fail("not a number", KeyOf(places));
  *out = value->AsDouble();
}

void ConfigReader::Get(Places places, Need need, bool* out) {
  const json::Value* value = FindOrFail(places, need);
  if (value == nullptr) return;
  if (!value->is_bool()) return Fail("neither true nor false", KeyOf(places));
  *out = value->AsBool();
}

void ConfigReader::Get(Places places, Need need, std::string* out) {
  const json::Value* value = FindOrFail(places, need);
  if (value == nullptr) return;
  if (!value->is_string()) return Fail("not a string", KeyOf(places));
  *out = value->AsString();
}

void ConfigReader::Expect(Places places, const json::Value& expected) {
  const json::Value* value = FindOrFail(places, Need::kOptional);
  if (value != nullptr && !SameJson(*value, expected)) {
    Fail("this engine supports only " + json::Serialize(expected), KeyOf(places));
  }
}

}  // namespace deepinfer
