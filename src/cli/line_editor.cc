#include "cli/line_editor.h"

#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/os.h"
#include "cli/interrupt.h"
#include "cli/output.h"

namespace deepinfer::cli {
namespace {

constexpr size_t kHistorySize = 1000;
constexpr char kEscape = '\x1b';
constexpr char Control(char letter) { return static_cast<char>(letter & 0x1f); }

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

size_t CharacterBefore(const std::string& text, size_t at) {
  do {
    --at;
  } while (at > 0 && IsContinuation(text[at]));
  return at;
}

size_t CharacterAfter(const std::string& text, size_t at) {
  do {
    ++at;
  } while (at < text.size() && IsContinuation(text[at]));
  return at;
}

size_t Columns(std::string_view text) {
  size_t columns = 0;
  for (const char c : text) columns += IsContinuation(c) ? 0 : 1;
  return columns;
}

/// Keys one by one and without echo, for the life of the object.
class RawMode {
 public:
  RawMode() {
    if (::tcgetattr(STDIN_FILENO, &before_) != 0) return;
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG | IEXTEN);
    raw.c_iflag &= ~static_cast<tcflag_t>(IXON | ICRNL | INLCR);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    active_ = ::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
  }
  ~RawMode() {
    if (active_) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  }
  RawMode(const RawMode&) = delete;
  RawMode& operator=(const RawMode&) = delete;

 private:
  termios before_{};
  bool active_ = false;
};

void ClearScreen() {
  // A terminal that cannot be written shows itself at the next read.
  [[maybe_unused]] const Status status = WriteStdout("\x1b[H\x1b[2J");
}

// 1 = a byte, 0 = end of input, -1 = error or interrupt.
int ReadByte(char* out) {
  for (;;) {
    const ssize_t n = ::read(STDIN_FILENO, out, 1);
    if (n >= 0) return static_cast<int>(n);
    if (errno != EINTR || Interrupted()) return -1;
  }
}

}  // namespace

void EditBuffer::Set(std::string text) {
  text_ = std::move(text);
  cursor_ = text_.size();
}

void EditBuffer::Insert(std::string_view text) {
  text_.insert(cursor_, text);
  cursor_ += text.size();
}

void EditBuffer::Left() {
  if (cursor_ > 0) cursor_ = CharacterBefore(text_, cursor_);
}

void EditBuffer::Right() {
  if (cursor_ < text_.size()) cursor_ = CharacterAfter(text_, cursor_);
}

void EditBuffer::WordLeft() {
  while (cursor_ > 0 && text_[cursor_ - 1] == ' ') --cursor_;
  while (cursor_ > 0 && text_[cursor_ - 1] != ' ') --cursor_;
}

void EditBuffer::WordRight() {
  while (cursor_ < text_.size() && text_[cursor_] == ' ') ++cursor_;
  while (cursor_ < text_.size() && text_[cursor_] != ' ') ++cursor_;
}

void EditBuffer::Backspace() {
  if (cursor_ == 0) return;
  const size_t from = CharacterBefore(text_, cursor_);
  text_.erase(from, cursor_ - from);
  cursor_ = from;
}

void EditBuffer::Delete() {
  if (cursor_ < text_.size()) text_.erase(cursor_, CharacterAfter(text_, cursor_) - cursor_);
}

void EditBuffer::DeleteWord() {
  const size_t end = cursor_;
  WordLeft();
  text_.erase(cursor_, end - cursor_);
}

void EditBuffer::DeleteToBegin() {
  text_.erase(0, cursor_);
  cursor_ = 0;
}

Result<std::optional<std::string>> LineEditor::Read() {
  return ::isatty(STDIN_FILENO) == 1 && StdoutIsTerminal() ? ReadTerminal() : ReadPlain();
}

Result<std::optional<std::string>> LineEditor::ReadPlain() {
  for (;;) {
    const size_t end = pending_.find('\n');
    if (end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return std::optional(std::move(line));
    }
    // An interrupt that came before the read does not end it.
    if (Interrupted()) return Cancelled();
    char chunk[4096];
    const ssize_t n = ::read(STDIN_FILENO, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR && !Interrupted()) continue;
    if (n < 0 && errno == EINTR) return Cancelled();
    if (n < 0) return SystemError(errno, "read", "standard input");
    if (n > 0) {
      pending_.append(chunk, static_cast<size_t>(n));
      continue;
    }
    if (pending_.empty()) return std::optional<std::string>();
    return std::optional(std::exchange(pending_, {}));
  }
}

void LineEditor::Draw(const EditBuffer& buffer) const {
  const size_t width = static_cast<size_t>(TerminalWidth());
  const size_t room = width > prompt_.size() + 2 ? width - prompt_.size() - 1 : 1;
  // The part of the line around the cursor that fits; long lines scroll sideways.
  size_t from = 0;
  while (Columns(std::string_view(buffer.text()).substr(from, buffer.cursor() - from)) > room)
    from = CharacterAfter(buffer.text(), from);
  size_t to = from;
  while (to < buffer.text().size() &&
         Columns(std::string_view(buffer.text()).substr(from, to - from)) < room) {
    to = CharacterAfter(buffer.text(), to);
  }
  std::string out = "\r" + prompt_ + Printable(buffer.text().substr(from, to - from)) + "\x1b[K\r";
  const size_t column =
      prompt_.size() + Columns(std::string_view(buffer.text()).substr(from, buffer.cursor() - from));
  if (column > 0) out += "\x1b[" + std::to_string(column) + "C";
  // As in ClearScreen.
  [[maybe_unused]] const Status status = WriteStdout(out);
}

void LineEditor::MoveInHistory(int step, EditBuffer* buffer) {
  if ((step < 0 && history_at_ == 0) || (step > 0 && history_at_ >= history_.size())) return;
  if (history_at_ == history_.size()) unfinished_ = buffer->text();
  history_at_ = step < 0 ? history_at_ - 1 : history_at_ + 1;
  buffer->Set(history_at_ == history_.size() ? unfinished_ : history_[history_at_]);
}

LineEditor::Outcome LineEditor::HandleEscape(EditBuffer* buffer) {
  char c = 0;
  if (ReadByte(&c) <= 0) return Outcome::kEnd;
  if (c == 'b') buffer->WordLeft();
  if (c == 'f') buffer->WordRight();
  if (c != '[' && c != 'O') return Outcome::kMore;
  std::string sequence;
  do {
    if (ReadByte(&c) <= 0) return Outcome::kEnd;
    sequence += c;
  } while ((c < '@' || c > '~') && sequence.size() < 16);
  if (sequence == "A") MoveInHistory(-1, buffer);
  if (sequence == "B") MoveInHistory(1, buffer);
  if (sequence == "C") buffer->Right();
  if (sequence == "D") buffer->Left();
  if (sequence == "1;5C") buffer->WordRight();
  if (sequence == "1;5D") buffer->WordLeft();
  if (sequence == "H" || sequence == "1~" || sequence == "7~") buffer->Home();
  if (sequence == "F" || sequence == "4~" || sequence == "8~") buffer->End();
  if (sequence == "3~") buffer->Delete();
  return Outcome::kMore;
}

LineEditor::Outcome LineEditor::Handle(char c, EditBuffer* buffer) {
  switch (c) {
    case '\r':
    case '\n': return Outcome::kLine;
    case kEscape: return HandleEscape(buffer);
    case Control('C'): return Outcome::kInterrupt;
    case Control('D'):
      if (buffer->text().empty()) return Outcome::kEnd;
      buffer->Delete();
      break;
    case Control('A'): buffer->Home(); break;
    case Control('E'): buffer->End(); break;
    case Control('B'): buffer->Left(); break;
    case Control('F'): buffer->Right(); break;
    case Control('P'): MoveInHistory(-1, buffer); break;
    case Control('N'): MoveInHistory(1, buffer); break;
    case Control('K'): buffer->DeleteToEnd(); break;
    case Control('U'): buffer->DeleteToBegin(); break;
    case Control('W'): buffer->DeleteWord(); break;
    case Control('H'):
    case '\x7f': buffer->Backspace(); break;
    case Control('L'): ClearScreen(); break;
    default:
      if (static_cast<unsigned char>(c) >= 0x20 || c == '\t') buffer->Insert({&c, 1});
  }
  return Outcome::kMore;
}

Result<std::optional<std::string>> LineEditor::ReadTerminal() {
  const RawMode raw;
  EditBuffer buffer;
  history_at_ = history_.size();
  unfinished_.clear();
  Outcome outcome = Outcome::kMore;
  while (outcome == Outcome::kMore) {
    Draw(buffer);
    char c = 0;
    const int got = ReadByte(&c);
    if (got < 0) outcome = Outcome::kInterrupt;
    if (got == 0) outcome = Outcome::kEnd;
    if (got > 0) outcome = Handle(c, &buffer);
  }
  DEEPINFER_RETURN_IF_ERROR(WriteStdout("\r\n"));
  if (outcome == Outcome::kInterrupt) return Cancelled();
  if (outcome == Outcome::kEnd) return std::optional<std::string>();
  if (!buffer.text().empty() && (history_.empty() || history_.back() != buffer.text()))
    history_.push_back(buffer.text());
  if (history_.size() > kHistorySize) history_.erase(history_.begin());
  return std::optional(buffer.text());
}

}  // namespace deepinfer::cli
