// A folder with the demo model's files, to be changed by a test; removed at the end.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

#include "demo_engine.h"

namespace deepinfer::testing {

class ModelCopy {
 public:
  ModelCopy() {
    static int count = 0;
    dir_ = std::filesystem::path(::testing::TempDir()) /
           ("engine_test_" + std::to_string(::getpid()) + "_" + std::to_string(count++));
    std::filesystem::create_directories(dir_);
    for (const auto& entry : std::filesystem::directory_iterator(kDemoModel)) {
      const std::filesystem::path to = dir_ / entry.path().filename();
      std::error_code error;
      std::filesystem::create_hard_link(entry.path(), to, error);
      if (error) std::filesystem::copy_file(entry.path(), to);
    }
  }
  ModelCopy(const ModelCopy&) = delete;
  ModelCopy& operator=(const ModelCopy&) = delete;
  ~ModelCopy() {
    std::error_code error;
    std::filesystem::remove_all(dir_, error);
  }

  std::string Path(const std::string& name) const { return (dir_ / name).string(); }
  std::string Read(const std::string& name) const {
    const auto text = ReadFile(Path(name), size_t{1} << 26);
    if (!text.ok()) throw std::runtime_error(text.status().ToString());
    return *text;
  }
  void Write(const std::string& name, const std::string& content) const {
    Remove(name);  // the file may be a link to the original
    const Status status = WriteFileAtomic(Path(name), content);
    if (!status.ok()) throw std::runtime_error(status.ToString());
  }
  void Remove(const std::string& name) const { std::filesystem::remove(dir_ / name); }
  void Replace(const std::string& name, const std::string& from, const std::string& to) const {
    std::string text = Read(name);
    const size_t at = text.find(from);
    if (at == std::string::npos) throw std::runtime_error(name + " does not hold " + from);
    Write(name, text.replace(at, from.size(), to));
  }

  Result<std::unique_ptr<Engine>> Load(EngineOptions options = {}) const {
    options.model_dir = dir_.string();
    return Engine::Load(options);
  }

 private:
  std::filesystem::path dir_;
};

}  // namespace deepinfer::testing
