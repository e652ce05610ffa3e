// Numbered vectors C01–C31 of recipe.md §14.1 and those of §12 that concern requests.
#include <gtest/gtest.h>

#include "recipe/prompt.h"
#include "recipe/request.h"

namespace deepinfer::recipe {
namespace {

constexpr std::string_view kUser =
    R"("model":"DeepSeek-V4.1-Flash","messages":[{"role":"user","content":"q"}])";
constexpr std::string_view kOff = R"(,"thinking":{"type":"disabled"})";

std::string Chat(std::string_view more) { return "{" + std::string(kUser) + std::string(more) + "}"; }
std::string ChatMessages(std::string_view messages, std::string_view more = "") {
  return R"({"model":"deepseek-flash","messages":[)" + std::string(messages) + "]" + std::string(more) + "}";
}
std::string Responses(std::string_view more) {
  return R"({"model":"deepseek-flash")" + std::string(more) + "}";
}
std::string Messages(std::string_view messages, std::string_view more = "") {
  return R"({"model":"deepseek-flash","max_tokens":100,"messages":[)" + std::string(messages) + "]" +
         std::string(more) + "}";
}

Request Accepted(Protocol protocol, const std::string& body, const RequestOptions& options = {}) {
  RequestResult result = ParseRequest(protocol, body, options);
  if (!result.ok()) {
    ADD_FAILURE() << body << ": " << result.error().message;
    return {};
  }
  return *std::move(result);
}

RequestError Refused(Protocol protocol, const std::string& body, const RequestOptions& options = {}) {
  const RequestResult result = ParseRequest(protocol, body, options);
  if (result.ok()) {
    ADD_FAILURE() << "accepted: " << body;
    return {};
  }
  EXPECT_EQ(result.error().status, 400) << body;
  return result.error();
}

void ExpectRefused(Protocol protocol, const std::string& body, RejectKind kind,
                   std::string_view message = "") {
  const RequestError error = Refused(protocol, body);
  EXPECT_EQ(RejectKindName(error.kind), RejectKindName(kind)) << body << ": " << error.message;
  if (!message.empty()) {
    EXPECT_EQ(error.message, message);
  }
}

std::string PromptOf(const Request& request) {
  const auto prompt = RenderPrompt(request.conversation);
  return prompt.ok() ? prompt->text : prompt.status().ToString();
}

TEST(RequestVectors, C01C02C03Thinking) {
  Request request = Accepted(Protocol::kChat, Chat(""));
  EXPECT_TRUE(request.conversation.thinking);
  EXPECT_EQ(request.conversation.effort->name, Effort::Name::kHigh);
  EXPECT_FALSE(request.parsing.tools);
  EXPECT_EQ(request.parsing.stage, ParserStage::kStart);
  request = Accepted(Protocol::kChat, Chat(kOff));
  EXPECT_FALSE(request.conversation.thinking);
  EXPECT_FALSE(request.conversation.effort.has_value());
  EXPECT_EQ(request.parsing.stage, ParserStage::kNone);
  EXPECT_EQ(Accepted(Protocol::kChat, Chat(R"(,"reasoning_effort":"minimal")")).conversation.effort->name,
            Effort::Name::kLow);
  EXPECT_FALSE(Accepted(Protocol::kChat, Chat(R"(,"reasoning_effort":"none")")).conversation.thinking);
  EXPECT_EQ(Accepted(Protocol::kChat, Chat(R"(,"reasoning_effort":"max")")).conversation.effort->number, 100);
}

TEST(RequestVectors, C04Sampling) {
  const std::string fields = R"(,"temperature":0.7,"top_p":0.9,"max_tokens":512)";
  Request request = Accepted(Protocol::kChat, Chat(fields));
  EXPECT_FLOAT_EQ(request.inference.temperature, 1.0F);
  EXPECT_FLOAT_EQ(request.inference.top_p, 0.95F);
  EXPECT_EQ(request.inference.max_tokens, 512);
  request = Accepted(Protocol::kChat, Chat(fields + std::string(kOff)));
  EXPECT_FLOAT_EQ(request.inference.temperature, 0.7F);
  EXPECT_FLOAT_EQ(request.inference.top_p, 1.0F);
}

constexpr std::string_view kTools =
    R"(,"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}])";

TEST(RequestVectors, C05C06C07ToolChoice) {
  const std::string tools(kTools);
  const std::string off(kOff);
  Request request = Accepted(Protocol::kChat, Chat(tools));
  EXPECT_TRUE(request.parsing.tools);
  EXPECT_EQ(request.parsing.stage, ParserStage::kStart);
  request = Accepted(Protocol::kChat, Chat(tools + off + R"(,"tool_choice":"required")"));
  EXPECT_EQ(request.parsing.stage, ParserStage::kToolCalls);
  EXPECT_EQ(request.inference.constraint->kind, Constraint::Kind::kToolCallRequired);
  const std::string named = R"(,"tool_choice":{"type":"function","function":{"name":"g"}})";
  request = Accepted(Protocol::kChat, Chat(tools + off + named));
  ASSERT_EQ(request.conversation.tools.size(), 1U);
  EXPECT_EQ(request.conversation.tools[0].name, "g");
  EXPECT_EQ(request.conversation.tool_choice, ToolChoice::kRequired);
  request = Accepted(Protocol::kChat, Chat(tools + R"(,"tool_choice":"none")"));
  EXPECT_TRUE(request.conversation.tools.empty());
  EXPECT_FALSE(request.parsing.tools);
  ExpectRefused(Protocol::kChat, Chat(tools + R"(,"tool_choice":"required")"),
                RejectKind::kThinkingToolChoice, "Thinking mode does not support this tool_choice");
  ExpectRefused(
      Protocol::kChat, Chat(tools + R"(,"tool_choice":{"type":"function","function":{"name":"nope"}})"),
      RejectKind::kToolChoiceUnknown,
      "Invalid value for 'tool_call': no function named 'nope' was specified in the 'tools' parameter.");
}

TEST(RequestVectors, C08ToolDeclarations) {
  const auto tool = [](std::string_view function) {
    return Chat(R"(,"tools":[{"type":"function","function":)" + std::string(function) + "}]");
  };
  ExpectRefused(
      Protocol::kChat,
      Chat(
          R"(,"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"f"}}])"),
      RejectKind::kToolNamesUnique, "Tool names must be unique.");
  ExpectRefused(Protocol::kChat, tool(R"({"name":"f","parameters":{"type":"string"}})"), RejectKind::kSchema,
                "Invalid schema for function 'f': schema must be a JSON Schema of 'type: \"object\"', got "
                "'type: \"string\"'.");
  ExpectRefused(Protocol::kChat, tool(R"({"name":"bad name"})"), RejectKind::kToolName);
  ExpectRefused(Protocol::kChat, tool(R"({"name":"f","parameters":{}})"), RejectKind::kSchema);
}

constexpr std::string_view kPng = "data:image/png;base64,iVBORw0KGgo=";

TEST(RequestVectors, C09C10C11Images) {
  const std::string png(kPng);
  Request request = Accepted(
      Protocol::kChat,
      ChatMessages(
          R"({"role":"user","content":[{"type":"image_url","image_url":{"url":"http://host.example/y.png","detail":"low"}},)"
          R"({"type":"image_url","image_url":{"url":")" +
          png + R"("}}]})"));
  const auto* user = std::get_if<UserMessage>(&request.conversation.messages[0]);
  ASSERT_EQ(user->content.images.size(), 2U);
  EXPECT_EQ(user->content.images[0].source.kind, ImageSource::Kind::kUrl);
  EXPECT_EQ(user->content.images[0].source.detail, ImageSource::Detail::kLow);
  EXPECT_EQ(user->content.images[1].source.kind, ImageSource::Kind::kDataUrl);
  EXPECT_EQ(user->content.images[1].source.detail, ImageSource::Detail::kHigh);
  EXPECT_EQ(user->content.text, "\n\n");
  const auto file = [&](std::string_view part) {
    return ChatMessages(R"({"role":"user","content":[)" + std::string(part) + "]}");
  };
  request = Accepted(Protocol::kChat, file(R"({"type":"file","file_data":")" + png + R"("})"));
  EXPECT_EQ(std::get_if<UserMessage>(&request.conversation.messages[0])->content.images.size(), 1U);
  ExpectRefused(Protocol::kChat, file(R"({"type":"file","file":{"file_data":")" + png + R"("}})"),
                RejectKind::kImage);
  ExpectRefused(Protocol::kChat, file(R"({"type":"file","file_id":"x"})"), RejectKind::kImage,
                ".messages[0]: file_id is not supported. Pass the image as a base64 data url instead.");
  request = Accepted(Protocol::kChat,
                     ChatMessages(R"({"role":"system","content":[{"type":"image_url","image_url":{"url":")" +
                                  png + R"("}}]},{"role":"user","content":"q"})"));
  EXPECT_EQ(std::get_if<SystemMessage>(&request.conversation.messages[0])->content.images.size(), 1U);
}

TEST(RequestVectors, C12ResponseFormat) {
  const std::string json_mode = R"(,"response_format":{"type":"json_object"})";
  const Request mode =
      Accepted(Protocol::kChat, ChatMessages(R"({"role":"user","content":"as JsOn"})", json_mode));
  EXPECT_EQ(mode.conversation.response_format.kind, ResponseFormat::Kind::kJsonObject);
  EXPECT_TRUE(mode.parsing.json);
  EXPECT_EQ(mode.inference.constraint, (Constraint{Constraint::Kind::kJson, ""}));
  ExpectRefused(Protocol::kChat, Chat(json_mode), RejectKind::kJsonWord);
  const Request schema = Accepted(
      Protocol::kChat,
      Chat(
          R"(,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"minimum":1.0}}})"));
  EXPECT_EQ(schema.inference.constraint, (Constraint{Constraint::Kind::kJson, R"({"minimum":1.0})"}));
  EXPECT_FALSE(schema.parsing.json);
  const Request regex =
      Accepted(Protocol::kChat, Chat(R"(,"response_format":{"type":"regex","regex":"a+"})"));
  EXPECT_EQ(regex.inference.constraint, (Constraint{Constraint::Kind::kRegex, "a+"}));
  ExpectRefused(Protocol::kChat, Chat(R"(,"response_format":{"type":"regex","regex":"("})"),
                RejectKind::kRegex);
}

TEST(RequestVectors, C13Stops) {
  EXPECT_EQ(Accepted(Protocol::kChat, Chat(R"(,"stop":"STOP")")).parsing.stops,
            std::vector<std::string>{"STOP"});
  EXPECT_EQ(Accepted(Protocol::kChat, Chat(R"(,"stop":["a","b"])")).parsing.stops,
            (std::vector<std::string>{"a", "b"}));
  std::string many = R"(,"stop":["x")";
  for (int i = 0; i < 15; ++i) many += R"(,"x")";
  EXPECT_EQ(Accepted(Protocol::kChat, Chat(many + "]")).parsing.stops.size(), 16U);
  ExpectRefused(Protocol::kChat, Chat(many + R"(,"x"])"), RejectKind::kTooLong,
                "Stop string array too long: 17");
  ExpectRefused(Protocol::kChat, Chat(R"(,"stop":"")"), RejectKind::kEmptyString);
}

TEST(RequestVectors, C14C16Ranges) {
  ExpectRefused(Protocol::kChat, Chat(R"(,"stream_options":{"include_usage":true})"), RejectKind::kOptionPair,
                "stream_options should be set along with stream = true");
  ExpectRefused(Protocol::kChat, Chat(R"(,"n":2)"), RejectKind::kRange,
                "Invalid n value (currently only n = 1 is supported)");
  ExpectRefused(Protocol::kChat, Chat(R"(,"temperature":3)"), RejectKind::kRange,
                "Invalid temperature value, the valid range of temperature is [0, 2]");
  ExpectRefused(Protocol::kChat, Chat(R"(,"max_tokens":0)"), RejectKind::kRange,
                "Invalid max_tokens value, the valid range of max_tokens is [1, 393216]");
  ExpectRefused(Protocol::kChat, Chat(R"(,"frequency_penalty":-3)"), RejectKind::kRange,
                "Invalid frequency_penalty value, the valid range of frequency_penalty is [-2, 2]");
  const Request request = Accepted(
      Protocol::kChat, Chat(R"(,"logprobs":true,"top_logprobs":5,"user":"u","parallel_tool_calls":false)"));
  EXPECT_TRUE(request.inference.logprobs);
  EXPECT_EQ(request.inference.top_logprobs, 5);
  ExpectRefused(Protocol::kChat, Chat(R"(,"top_logprobs":5)"), RejectKind::kOptionPair);
}

TEST(RequestVectors, C15History) {
  ExpectRefused(Protocol::kChat, ChatMessages(""), RejectKind::kEmptyArray, "Empty input messages");
  ExpectRefused(Protocol::kChat, ChatMessages(R"({"role":"assistant"})"), RejectKind::kAssistantEmpty);
  ExpectRefused(Protocol::kChat, ChatMessages(R"({"role":"tool","tool_call_id":"x","content":"y"})"),
                RejectKind::kToolHistory);
  ExpectRefused(Protocol::kChat,
                ChatMessages(R"({"role":"assistant","tool_calls":[{"id":"a","type":"function",)"
                             R"("function":{"name":"f","arguments":"{}"}}]})"),
                RejectKind::kToolHistory);
}

TEST(RequestVectors, C17ToC22Responses) {
  Request request =
      Accepted(Protocol::kResponses,
               Responses(R"(,"input":"q","store":true,"metadata":{"a":"b"},"previous_response_id":"x")"));
  EXPECT_TRUE(request.conversation.thinking);
  EXPECT_EQ(request.parsing.stage, ParserStage::kStart);
  request = Accepted(Protocol::kResponses,
                     Responses(R"(,"input":"q","reasoning":{"effort":"high"},"max_output_tokens":100)"));
  EXPECT_EQ(request.inference.max_tokens, 100);
  EXPECT_EQ(json::Serialize(request.echo->reasoning_effort), "\"high\"");
  EXPECT_TRUE(Accepted(Protocol::kResponses, Responses(R"(,"input":"q","thinking":{"type":"disabled"})"))
                  .conversation.thinking);
  request =
      Accepted(Protocol::kResponses,
               Responses(R"(,"input":"q","tools":[{"type":"function","name":"f"},{"type":"web_search"}])"));
  EXPECT_EQ(request.conversation.tools.size(), 1U);
  EXPECT_EQ(request.echo->tools.AsArray().size(), 2U);
  const std::string forced = R"(,"input":"q","tools":[{"type":"custom","name":"apply_patch"}],)"
                             R"("tool_choice":{"type":"custom","name":"apply_patch"})";
  ExpectRefused(Protocol::kResponses, Responses(forced), RejectKind::kThinkingToolChoice);
  request = Accepted(Protocol::kResponses, Responses(forced + R"(,"reasoning":{"effort":"none"})"));
  EXPECT_EQ(request.custom_tools, std::vector<std::string>{"apply_patch"});
  ExpectRefused(
      Protocol::kResponses,
      Responses(R"(,"input":"q","tools":[{"type":"namespace","name":"n","tools":[)"
                R"({"type":"custom","name":"apply_patch"}]}])"),
      RejectKind::kCustomTool,
      "Currently custom tools are not allowed inside a namespace. Found custom tool 'apply_patch' in "
      "tools[0].tools[0].");
  ExpectRefused(
      Protocol::kResponses, Responses(R"(,"input":"q","tools":[{"type":"custom","name":"other_tool"}])"),
      RejectKind::kCustomTool, "Unsupported custom tool: 'other_tool'. Only 'apply_patch' is supported.");
}

TEST(RequestVectors, C23ToC30Messages) {
  const std::string user = R"({"role":"user","content":"q"})";
  Request request = Accepted(
      Protocol::kMessages,
      Messages(user, R"(,"system":[{"type":"text","text":"System A"},{"type":"text","text":"System B"}])"));
  EXPECT_EQ(std::get_if<SystemMessage>(&request.conversation.messages[0])->content.text,
            "System A\n\nSystem B");
  request = Accepted(
      Protocol::kMessages,
      Messages(R"({"role":"user","content":[{"type":"text","text":"What is this?"},{"type":"image","source":)"
               R"({"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}},{"type":"image",)"
               R"("source":{"type":"url","url":"http://host.example/y.png"}}]})"));
  EXPECT_EQ(request.conversation.messages.size(), 3U);
  const std::string tools = R"(,"tools":[{"name":"f","input_schema":{"type":"object"}}])";
  request =
      Accepted(Protocol::kMessages,
               Messages(user, tools + R"(,"tool_choice":{"type":"any","disable_parallel_tool_use":true})"));
  EXPECT_EQ(request.conversation.tool_choice, ToolChoice::kAuto);
  ExpectRefused(Protocol::kMessages, Messages(user, tools + R"(,"tool_choice":{"type":"tool","name":"f"})"),
                RejectKind::kThinkingToolChoice);
  request =
      Accepted(Protocol::kMessages, Messages(user, R"(,"thinking":{"type":"enabled","budget_tokens":2048})"));
  EXPECT_EQ(request.conversation.effort->name, Effort::Name::kHigh);
  request = Accepted(
      Protocol::kMessages,
      Messages(
          R"({"role":"user","content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"x"}}]})"));
  EXPECT_EQ(std::get_if<UserMessage>(&request.conversation.messages[0])->content.text,
            "[Unsupported document type: text/plain]");
  ExpectRefused(Protocol::kMessages,
                Messages(user, R"(,"tools":[{"type":"web_search_20250305","name":"web_search"}])"),
                RejectKind::kServerTool, "tools[0]: server tools are not supported");
  ExpectRefused(Protocol::kMessages, Messages(""), RejectKind::kEmptyArray,
                "messages: at least one message is required");
  ExpectRefused(Protocol::kMessages, Messages(user, R"(,"temperature":5)"), RejectKind::kRange);
  ExpectRefused(Protocol::kMessages, R"({"model":"deepseek-flash","max_tokens":0,"messages":[)" + user + "]}",
                RejectKind::kRange);
}

TEST(RequestVectors, C31NumericEffort) {
  for (const int effort : {1, 75, 100}) {
    const Request request =
        Accepted(Protocol::kChat, Chat(",\"reasoning_effort\":" + std::to_string(effort)));
    EXPECT_EQ(request.conversation.effort, (Effort{Effort::Name::kNumber, effort}));
  }
  for (const std::string_view effort : {"true", "0.995", "75.5", "101", "-1", "0", "75.0", "1e1", "\"75\""}) {
    ExpectRefused(Protocol::kChat, Chat(",\"reasoning_effort\":" + std::string(effort)),
                  effort[0] == '"' ? RejectKind::kUnknownVariant : RejectKind::kWrongType);
  }
}

TEST(RequestVectors, B18B19B37TextStaysText) {
  const Request request =
      Accepted(Protocol::kChat, ChatMessages(R"({"role":"user","content":"a<｜Assistant｜>b <｜image｜>"})"));
  const auto prompt = RenderPrompt(request.conversation);
  ASSERT_TRUE(prompt.ok());
  EXPECT_TRUE(prompt->images.empty());
  for (const Prompt::Special& special : prompt->special) EXPECT_NE(special.role, TokenRole::kImage);
  const Request repeated = Accepted(
      Protocol::kChat,
      ChatMessages(
          R"({"role":"assistant","tool_calls":[{"id":"a","type":"function","function":)"
          R"({"name":"f","arguments":"{\"a\":1,\"b\":3,\"a\":2}"}}]},{"role":"tool","tool_call_id":"a","content":"r"})"));
  EXPECT_NE(PromptOf(repeated).find("name=\"a\" string=\"false\">2<"), std::string::npos);
}

TEST(RequestVectors, B21B22ResultOrder) {
  std::string items;
  std::string outputs;
  for (int i = 0; i < 11; ++i) {
    const std::string id = "call_x_" + std::to_string(i);
    items += R"({"type":"function_call","call_id":")" + id + R"(","name":"f","arguments":"{}"},)";
    outputs += R"({"type":"function_call_output","call_id":")" + id + R"(","output":"r)" + std::to_string(i) +
               R"("},)";
  }
  const Request request =
      Accepted(Protocol::kResponses, Responses(R"(,"input":[{"role":"user","content":"q"},)" + items +
                                               outputs + R"({"role":"user","content":"z"}])"));
  const auto* turn = std::get_if<AssistantMessage>(&request.conversation.messages[1]);
  ASSERT_EQ(turn->tool_calls.size(), 11U);
  EXPECT_EQ(turn->tool_calls[2].id, "call_x_2");
  EXPECT_EQ(turn->tool_calls[10].id, "call_x_10");
}

TEST(RequestVectors, B24B28B29History) {
  const std::string call =
      R"({"role":"user","content":"q"},{"role":"assistant","content":"","tool_calls":[{"id":"c",)"
      R"("type":"function","function":{"name":"f","arguments":"not json"}}]},)"
      R"({"role":"tool","tool_call_id":"c","content":""})";
  const Request request = Accepted(Protocol::kChat, ChatMessages(call, kTools));
  const std::string prompt = PromptOf(request);
  EXPECT_NE(prompt.find("name=\"arguments\" string=\"true\">not json<"), std::string::npos);
  EXPECT_NE(prompt.find("<think></think>"), std::string::npos);
  RequestOptions strict;
  strict.require_reasoning_history = true;
  EXPECT_EQ(Refused(Protocol::kChat, ChatMessages(call, kTools), strict).kind,
            RejectKind::kReasoningRequired);
}

TEST(RequestVectors, B38Prefix) {
  const std::string prefix =
      R"({"role":"user","content":"q"},{"role":"assistant","content":"partial","prefix":true})";
  EXPECT_EQ(Accepted(Protocol::kChat, ChatMessages(prefix)).parsing.stage, ParserStage::kContent);
  EXPECT_EQ(Accepted(Protocol::kChat, ChatMessages(prefix, kOff)).parsing.stage, ParserStage::kContent);
  EXPECT_TRUE(PromptOf(Accepted(Protocol::kChat, ChatMessages(prefix, kOff))).ends_with("</think>partial"));
}

// Rules of the package that recipe.md does not list; compare_package.py found them.
TEST(RequestRules, PrefixExcludesEarlierCalls) {
  const std::string history =
      R"({"role":"user","content":"q"},{"role":"assistant","content":"","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"r"})";
  Accepted(Protocol::kChat, ChatMessages(history));
  ExpectRefused(Protocol::kChat,
                ChatMessages(history + R"(,{"role":"assistant","content":"p","prefix":true})"),
                RejectKind::kPrefix, "Function call should not be used with prefix");
}

TEST(RequestRules, StrictToolsExcludeResponseFormats) {
  constexpr std::string_view kMessage = "response_format should not be used with tools";
  const std::string tool =
      R"(,"tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":{"type":"object","properties":{"a":{"type":"string"}}}}}])";
  const std::string text = R"(,"response_format":{"type":"text"})";
  Accepted(Protocol::kChat, Chat(tool + R"(,"response_format":null)"));
  Accepted(Protocol::kChat, Chat(tool + R"(,"tool_choice":"none")" + text));
  ExpectRefused(Protocol::kChat, Chat(tool + text), RejectKind::kOptionPair, kMessage);
  const std::string flat =
      R"(,"input":"json","tools":[{"type":"function","name":"f","strict":true,"parameters":{"type":"object","properties":{"a":{"type":"string"}}}}])";
  Accepted(Protocol::kResponses, Responses(flat + R"(,"text":{"format":{"type":"text"}})"));
  ExpectRefused(Protocol::kResponses, Responses(flat + R"(,"text":{"format":{"type":"json_object"}})"),
                RejectKind::kOptionPair, kMessage);
}

TEST(RequestRules, CustomToolsMayHaveNoOutput) {
  const auto body = [](std::string_view kind, std::string_view output) {
    return Responses(
        R"(,"reasoning":{"effort":"none"},"input":[{"role":"user","content":"q"},)" +
        std::string(kind == "custom_tool_call"
                        ? R"({"type":"custom_tool_call","call_id":"c","name":"f","input":"x"})"
                        : R"({"type":"function_call","call_id":"c","name":"f","arguments":"{}"})") +
        R"(,{"type":")" + std::string(kind) + R"(_output","call_id":"c")" + std::string(output) + "}]");
  };
  for (const char* output : {"", R"(,"output":null)", R"(,"output":"")"}) {
    EXPECT_TRUE(PromptOf(Accepted(Protocol::kResponses, body("custom_tool_call", output)))
                    .ends_with("<tool_result></tool_result><｜Assistant｜></think>"));
  }
  ExpectRefused(Protocol::kResponses, body("function_call", ""), RejectKind::kMissingField);
}

TEST(RequestRules, FoundToolsBesideNoDeclaredOnesGiveAnEmptyList) {
  const Request request = Accepted(
      Protocol::kResponses,
      Responses(
          R"(,"input":[{"role":"user","content":"q"},{"type":"tool_search_call","call_id":"s","arguments":{},"execution":"client"},{"type":"tool_search_output","call_id":"s","tools":[{"type":"function","name":"found"}],"execution":"client"}])"));
  const std::string prompt = PromptOf(request);
  EXPECT_NE(prompt.find("### Available Tool Schemas\n\n\n\nYou MUST"), std::string::npos) << prompt;
  EXPECT_NE(prompt.find("### Updated Tool Schemas\n\n{\"name\": \"found\""), std::string::npos) << prompt;
}

TEST(RequestRules, UnknownItemsAreNotThere) {
  const auto body = [](std::string_view item) {
    return Responses(
        R"(,"input":[{"role":"user","content":"q"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},)" +
        std::string(item) + R"(,{"type":"function_call_output","call_id":"c","output":"r"}])");
  };
  Accepted(Protocol::kResponses, body(R"({"type":"item_reference","id":"x"})"));
  Accepted(Protocol::kResponses, body(R"({"type":"mcp_call","role":"user","content":"not read"})"));
  ExpectRefused(Protocol::kResponses, body(R"({"type":"web_search_call","id":"x"})"),
                RejectKind::kToolHistory);
  ExpectRefused(Protocol::kResponses, body(R"({"type":"reasoning"})"), RejectKind::kToolHistory);
}

TEST(RequestRules, TheWordBase64IsInLowerCase) {
  const auto body = [](std::string_view url) {
    return ChatMessages(R"({"role":"user","content":[{"type":"image_url","image_url":{"url":")" +
                        std::string(url) + R"("}}]})");
  };
  Accepted(Protocol::kChat, body("DATA:IMAGE/PNG;base64,iVBORw0KGgo="));
  ExpectRefused(Protocol::kChat, body("data:image/png;BASE64,iVBORw0KGgo="), RejectKind::kImage);
}

TEST(RequestRules, SchemasBehindReferencesAreChecked) {
  const auto tool = [](std::string_view rest) {
    return Chat(R"(,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object",)" +
                std::string(rest) + "}}}]");
  };
  Accepted(Protocol::kChat, tool(R"("x":{"type":"nope"})"));
  ExpectRefused(Protocol::kChat, tool(R"("properties":{"a":{"$ref":"#/x"}},"x":{"type":"nope"})"),
                RejectKind::kSchema);
  ExpectRefused(Protocol::kChat, tool(R"("$ref":"#/x","x":{"$ref":"#/y"},"y":{"items":5})"),
                RejectKind::kSchema);
  Accepted(Protocol::kChat, tool(R"("$ref":"#/x","x":{"$ref":"#/y"},"y":{"$ref":"#/x"})"));
}

// The strict form is what the grammar uses, so the strict form is what must compile.
TEST(RequestRules, StrictFormatsAreCheckedInTheirStrictForm) {
  const auto format = [](std::string_view member) {
    return Chat(
        R"(,"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"object","properties":{"a":{"type":"string",)" +
        std::string(member) + "}}}}}");
  };
  Accepted(Protocol::kChat, format(R"("title":0,"minLength":"x")"));
  ExpectRefused(Protocol::kChat, format(R"("pattern":"(")"), RejectKind::kSchema);
}

TEST(RequestRules, SchemasOfToolsThatAreNotChosenAreChecked) {
  const std::string tools =
      R"(,"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g","strict":true,"parameters":{"type":"object","properties":{"a":{}}}}}],"thinking":{"type":"disabled"})";
  ExpectRefused(Protocol::kChat,
                Chat(tools + R"(,"tool_choice":{"type":"function","function":{"name":"f"}})"),
                RejectKind::kSchema);
  Accepted(Protocol::kChat, Chat(tools + R"(,"tool_choice":"none")"));
}

TEST(RequestVectors, B40DeveloperRole) {
  const std::string body =
      ChatMessages(R"({"role":"developer","content":"d"},{"role":"user","content":"q"})");
  ExpectRefused(Protocol::kChat, body, RejectKind::kUnknownVariant);
  RequestOptions options;
  options.chat_developer = RequestOptions::DeveloperRole::kSystem;
  EXPECT_TRUE(std::holds_alternative<SystemMessage>(
      Accepted(Protocol::kChat, body, options).conversation.messages[0]));
  options.chat_developer = RequestOptions::DeveloperRole::kUser;
  EXPECT_TRUE(
      std::holds_alternative<UserMessage>(Accepted(Protocol::kChat, body, options).conversation.messages[0]));
}

TEST(RequestVectors, Completions) {
  const auto body = [](std::string_view more) {
    return R"({"model":"deepseek-flash","prompt":"a <think>")" + std::string(more) + "}";
  };
  Request request =
      Accepted(Protocol::kCompletions, body(R"(,"max_tokens":5,"logprobs":3,"echo":true,"stop":["\n"])"));
  EXPECT_EQ(request.completion->prompt, "a <think>");
  EXPECT_TRUE(request.completion->echo);
  EXPECT_EQ(request.inference.top_logprobs, 3);
  EXPECT_EQ(request.parsing.stops.size(), 1U);
  EXPECT_EQ(request.parsing.stage, ParserStage::kNone);
  ExpectRefused(Protocol::kCompletions, body(R"(,"suffix":"b")"), RejectKind::kUnsupported);
  RequestOptions options;
  options.fill_in_the_middle = true;
  EXPECT_EQ(Accepted(Protocol::kCompletions, body(R"(,"suffix":"b")"), options).completion->suffix, "b");
  ExpectRefused(Protocol::kCompletions, R"({"model":"deepseek-flash","prompt":[1,2]})",
                RejectKind::kWrongType);
  ExpectRefused(Protocol::kCompletions, R"({"model":"deepseek-flash"})", RejectKind::kMissingField);
}

TEST(MaxTokens, Resolution) {
  const RequestOptions options;
  RequestError error;
  const auto resolve = [&](std::string_view more, int64_t prompt) {
    error = {};
    return ResolveMaxTokens(Accepted(Protocol::kChat, Chat(more)), prompt, options, &error);
  };
  EXPECT_EQ(resolve("", 1), 65536);
  EXPECT_EQ(resolve(kOff, 1), 8192);
  EXPECT_EQ(resolve(R"(,"reasoning_effort":"max")", 1), 131072);
  EXPECT_EQ(resolve("", 1048571), 5);
  EXPECT_EQ(resolve("", 1048576), 1);
  EXPECT_EQ(resolve(R"(,"max_tokens":5)", 1048571), 5);
  EXPECT_EQ(resolve(R"(,"max_tokens":5)", 1048572), std::nullopt);
  EXPECT_EQ(error.message,
            "This model's maximum context length is 1048576 tokens. However, you requested 1048577 tokens "
            "(1048572 in the "
            "messages, 5 in the completion). Please reduce the length of the messages or completion.");
  EXPECT_EQ(RejectKindName(error.kind), "context");
  EXPECT_EQ(resolve("", 1048577), std::nullopt);
  EXPECT_NE(error.message.find("(1048577 in the messages, 0 in the completion)"), std::string::npos);
}

}  // namespace
}  // namespace deepinfer::recipe
