// One line from a person: with editing and history on a terminal, plain reading otherwise.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace deepinfer::cli {

/// The text being edited, as a value: what each key does, without a terminal.
class EditBuffer {
 public:
  const std::string& text() const { return text_; }
  size_t cursor() const { return cursor_; }  // byte offset, at a character boundary
  void Set(std::string text);

  void Insert(std::string_view text);
  void Left();
  void Right();
  void WordLeft();
  void WordRight();
  void Home() { cursor_ = 0; }
  void End() { cursor_ = text_.size(); }
  void Backspace();
  void Delete();
  void DeleteWord();  // back to the begin of the word
  void DeleteToEnd() { text_.erase(cursor_); }
  void DeleteToBegin();

 private:
  std::string text_;
  size_t cursor_ = 0;
};

/// Reads lines. On a terminal: arrows, Home, End, Ctrl-A/E/B/F/K/U/W/D/L, Alt-B/F, Up and Down through the history.
class LineEditor {
 public:
  explicit LineEditor(std::string prompt) : prompt_(std::move(prompt)) {}

  /// The next line; nothing at the end of the input. Errors: kIo, kCancelled (Ctrl-C).
  Result<std::optional<std::string>> Read();

 private:
  Result<std::optional<std::string>> ReadPlain();
  Result<std::optional<std::string>> ReadTerminal();
  enum class Outcome : uint8_t { kMore, kLine, kEnd, kInterrupt };
  Outcome Handle(char c, EditBuffer* buffer);
  Outcome HandleEscape(EditBuffer* buffer);
  void MoveInHistory(int step, EditBuffer* buffer);
  void Draw(const EditBuffer& buffer) const;

  std::string prompt_;
  std::vector<std::string> history_;
  size_t history_at_ = 0;
  std::string unfinished_;  // what stood in the line before the history was entered
  std::string pending_;     // bytes behind a line of a pipe
};

}  // namespace deepinfer::cli
