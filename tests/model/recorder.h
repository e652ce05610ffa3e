// An observer that keeps what a pass computed and can replace it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/backbone.h"

namespace deepinfer::testing {

/// Values of one kind by tensor name, with what shall be done to them.
template <typename T>
struct Recorded {
  using Edit = std::function<void(std::span<T> data, std::span<const int64_t> shape)>;
  std::map<std::string, std::vector<T>> values;  // as the pass went on with them
  std::map<std::string, Edit> edits;

  void See(const std::string& name, std::span<T> data, std::span<const int64_t> shape) {
    if (const auto edit = edits.find(name); edit != edits.end()) edit->second(data, shape);
    values[name].assign(data.begin(), data.end());
  }
  /// Throws when no tensor of the name was seen, so that a test cannot compare nothing with nothing.
  const std::vector<T>& at(const std::string& name) const { return values.at(name); }
  void Replace(const std::string& name, std::vector<T> with) {
    edits[name] = [with = std::move(with)](std::span<T> data, std::span<const int64_t>) {
      if (with.size() != data.size()) throw std::runtime_error("a replacement of another size");
      std::copy(with.begin(), with.end(), data.begin());
    };
  }
};

class Recorder : public model::Observer {
 public:
  Recorded<Bf16> bf16s;
  Recorded<float> floats;
  Recorded<int32_t> ints;
  Recorded<int64_t> longs;

  void OnBf16(const std::string& name, std::span<Bf16> data, std::span<const int64_t> shape) override {
    bf16s.See(name, data, shape);
  }
  void OnFloat(const std::string& name, std::span<float> data, std::span<const int64_t> shape) override {
    floats.See(name, data, shape);
  }
  void OnInt32(const std::string& name, std::span<int32_t> data, std::span<const int64_t> shape) override {
    ints.See(name, data, shape);
  }
  void OnInt64(const std::string& name, std::span<int64_t> data, std::span<const int64_t> shape) override {
    longs.See(name, data, shape);
  }
};

inline std::string LayerTensor(int layer, const std::string& name) {
  return "layers." + std::to_string(layer) + "." + name;
}

}  // namespace deepinfer::testing
