// A copy of a test checkpoint whose configuration and weights a test may change.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/checkpoint.h"
#include "checkpoint/config.h"

namespace deepinfer::testing {

class EditedCheckpoint {
 public:
  /// Copies a folder below the test data, e.g. "goldens/tiny".
  explicit EditedCheckpoint(const std::string& folder);
  EditedCheckpoint(const EditedCheckpoint&) = delete;
  EditedCheckpoint& operator=(const EditedCheckpoint&) = delete;
  ~EditedCheckpoint();

  const std::string& dir() const { return dir_; }

  void EditConfig(const std::function<void(ModelConfig&)>& edit);
  /// Changes the stored bytes of one tensor. Throws when the checkpoint has no such tensor.
  void EditTensor(const std::string& name, const std::function<void(std::span<uint8_t>)>& edit);
  /// Turns the sign of every element of every tensor that `wanted` names (scales are left alone); returns how many tensors.
  int FlipSigns(const std::function<bool(std::string_view)>& wanted);

 private:
  std::string dir_;
};

}  // namespace deepinfer::testing
