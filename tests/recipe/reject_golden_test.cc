// All lines of rejects.jsonl: refused with 400 and the class of the line, or accepted where ours differs on purpose.
#include <set>

#include <gtest/gtest.h>

#include "recipe/json_lines.h"
#include "recipe/request_cases.h"

namespace deepinfer::recipe {
namespace {

using testing::Text;

// The goldens' labels were derived from words of the message. Two errors of a strict schema do not hold the word schema first.
std::string ClassOf(const json::Value& error) {
  const std::string& label = Text(error, "class");
  const bool strict_schema =
      Text(error, "stage") == "convert" && (label == "missing_field" || label == "other");
  return strict_schema ? "schema" : label;
}

TEST(RejectGolden, EveryLine) {
  const auto lines = GoldenLines("rejects.jsonl");
  ASSERT_EQ(lines.size(), 271U);
  size_t accepted = 0;
  for (const json::Value& line : lines) {
    SCOPED_TRACE(Text(line, "id") + " " + Text(line, "protocol") + " " + Text(line, "body").substr(0, 400));
    const RequestResult result = ParseGolden(line);
    const json::Value* ours = line.Find("ours");
    if (ours != nullptr) {
      ASSERT_TRUE(ours->Find("accept")->AsBool());
      ++accepted;
      ASSERT_TRUE(result.ok()) << result.error().message;
      if (const json::Value* effort = ours->Find("effort")) {
        int64_t number = 0;
        ASSERT_TRUE(effort->GetInt64(&number));
        EXPECT_EQ(result->conversation.effort, (Effort{Effort::Name::kNumber, static_cast<int>(number)}));
      }
      continue;
    }
    const json::Value& error = *line.Find("error");
    if (result.ok()) {
      ADD_FAILURE() << "accepted, expected: " << Text(error, "message");
      continue;
    }
    EXPECT_EQ(result.error().status, 400);
    EXPECT_EQ(RejectKindName(result.error().kind), ClassOf(error)) << result.error().message;
    EXPECT_EQ(result.error().stage == RejectStage::kBody, Text(error, "stage") == "body")
        << result.error().message;
    if (Text(error, "stage") != "convert") continue;
    EXPECT_EQ(result.error().message, Text(error, "message"));
    EXPECT_EQ(result.error().type, Text(error, "type"));
    EXPECT_EQ(result.error().code, Text(error, "code"));
  }
  EXPECT_EQ(accepted, 5U);
}

TEST(RejectGolden, ErrorsAsJson) {
  const RequestResult result = ParseRequest(Protocol::kChat, R"({"model":"deepseek-flash","messages":[]})");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(json::Serialize(result.error().ToJson()),
            R"({"error":{"message":"Empty input messages","type":"invalid_request_error","param":null,)"
            R"("code":"invalid_request_error"}})");
}

}  // namespace
}  // namespace deepinfer::recipe
