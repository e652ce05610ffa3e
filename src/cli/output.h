// Standard output for machines, standard error for people (spec: cli.md §1).
#pragma once

#include <string_view>

#include "base/json.h"
#include "base/status.h"

namespace deepinfer::cli {

/// Writes to standard output at once. A closed pipe ends the process silently with exit code 0: the reader has all it wanted. Errors
/// otherwise: kResourceExhausted for a full disk, kIo.
Status WriteStdout(std::string_view text);

/// One JSON value and a line end to standard output.
Status WriteJsonLine(const json::Value& value);

/// Whether the stream is a terminal that understands control sequences (TERM is not "dumb").
bool StdoutIsTerminal();
bool StderrIsTerminal();

/// Dimmed text for a terminal; NO_COLOR switches it off. Empty texts where there is none.
std::string_view DimOn();
std::string_view DimOff();

/// Columns of the terminal on standard error, 80 when unknown.
int TerminalWidth();

/// Text made safe for a terminal: control characters other than line ends and tabs are shown as \xNN.
std::string Printable(std::string_view text);

/// Bytes as people read them: "7.2 GB" (decimal units).
std::string ByteText(double bytes);
/// Seconds as people read them: "3m12s".
std::string DurationText(double seconds);

/// Exit code that belongs to a status (spec: cli.md §1).
int ExitCode(const Status& status);

/// {"error":{"code","message","where"}} — the inner object.
json::Value ErrorObject(const Status& status);

/// Reports a failed command: the JSON object on standard output, or two lines for people on standard error. Returns the exit code.
int ReportError(const Status& status, bool as_json);

}  // namespace deepinfer::cli
