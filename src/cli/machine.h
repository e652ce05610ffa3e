// What this machine has: looked up for `doctor`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace deepinfer::cli {

struct ProcessorInfo {
  std::string model;
  std::vector<std::string> features;  // of those that kernels can use, in the kernel's spelling
  int available = 0;                  // processors that this process may use
  int present = 0;
};
ProcessorInfo LookAtProcessor();

struct MemoryInfo {
  uint64_t total = 0, available = 0;
  uint64_t huge_pages_total = 0, huge_pages_free = 0, huge_page_bytes = 0;
  std::string transparent_huge_pages;  // "always", "madvise", "never"; empty when unknown
};
MemoryInfo LookAtMemory();

struct LimitInfo {
  std::string name;  // "open files"
  uint64_t value = 0;
  bool unlimited = false;
};
std::vector<LimitInfo> LookAtLimits();

struct GpuInfo {
  std::string name, bus;
};
struct GpuReport {
  std::string driver;  // empty: no driver
  std::vector<GpuInfo> gpus;
};
GpuReport LookAtGpus();

/// Bytes per second that `threads` threads read together from memory of `bytes` bytes; the best of `rounds` rounds. 0 when the
/// memory cannot be had.
double MeasureReadBandwidth(uint64_t bytes, int threads, int rounds);

}  // namespace deepinfer::cli
