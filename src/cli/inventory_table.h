// Weight classes as `plan` and `inspect` show them (spec: checkpoint.md §6).
#pragma once

#include <string>

#include "base/json.h"
#include "checkpoint/inventory.h"

namespace deepinfer::cli {

/// {"layers":{"tensors","bytes"},…}: every class, also empty ones.
json::Value ClassesToJson(const InventoryTotals& totals);
/// The same as a table for people, with the sum.
std::string ClassTable(const InventoryTotals& totals);

}  // namespace deepinfer::cli
