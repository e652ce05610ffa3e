// The field tables of docs/recipe.md are those of the validators. Written anew with
//   DEEPINFER_UPDATE_DOCS=1 build/…/tests/recipe/recipe_field_docs_test
#include <cstdlib>
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "recipe/request_fields.h"

namespace deepinfer::recipe {
namespace {

std::string FieldRow(const Field& field) {
  std::string presence;
  if (field.presence == FieldPresence::kRequired) presence = "required";
  if (field.presence == FieldPresence::kOptional) presence = "not null";
  return fmt::format("| `{}` | {} | {} | {} |\n", field.name, FieldTypeText(field.type), presence,
                     field.text);
}

std::string TablesOf(Protocol protocol) {
  std::string out;
  for (const FieldTable& table : FieldTables(protocol)) {
    out += fmt::format("\n#### {}\n\n| field | type | | values and handling |\n|---|---|---|---|\n",
                       table.title == "body" ? "Body" : fmt::format("`{}`", table.title));
    for (const Field& field : table.fields) out += FieldRow(field);
  }
  return out + "\n";
}

// `text` with the part between the protocol's two markers replaced.
std::string WithTables(const std::string& text, Protocol protocol) {
  const std::string begin = fmt::format("<!-- fields of {} -->\n", ProtocolName(protocol));
  const std::string end = fmt::format("<!-- end of {} -->\n", ProtocolName(protocol));
  const size_t from = text.find(begin);
  const size_t to = text.find(end);
  if (from == std::string::npos || to == std::string::npos) return "no markers for " + begin;
  return text.substr(0, from + begin.size()) + TablesOf(protocol) + text.substr(to);
}

TEST(FieldDocs, TablesAreCurrent) {
  const std::string path = std::string(DEEPINFER_SOURCE_DIR) + "/docs/recipe.md";
  const auto text = ReadFile(path, size_t{1} << 20);
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  std::string current = *text;
  for (const Protocol protocol :
       {Protocol::kChat, Protocol::kResponses, Protocol::kMessages, Protocol::kCompletions}) {
    current = WithTables(current, protocol);
  }
  if (std::getenv("DEEPINFER_UPDATE_DOCS") != nullptr) {
    std::ofstream(path) << current;
    return;
  }
  EXPECT_EQ(current, *text) << "write it anew: DEEPINFER_UPDATE_DOCS=1 with this program";
}

TEST(FieldDocs, EveryFieldIsDescribed) {
  for (const Protocol protocol :
       {Protocol::kChat, Protocol::kResponses, Protocol::kMessages, Protocol::kCompletions}) {
    ASSERT_FALSE(FieldTables(protocol).empty());
    for (const FieldTable& table : FieldTables(protocol)) {
      for (const Field& field : table.fields)
        EXPECT_FALSE(field.text.empty()) << table.title << "." << field.name;
    }
  }
}

}  // namespace
}  // namespace deepinfer::recipe
