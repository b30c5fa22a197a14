#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "sim/base/time.h"

namespace foretrain::trace {

// Takes text piece by piece; throws what it likes if it cannot.
using Sink = std::function<void(std::string_view)>;

// A row of the viewer: a thread of a process.
struct Track {
  int process = 0, thread = 0;
  bool operator==(const Track&) const = default;
};

// The nanosecond nearest to a time.
constexpr Time to_nanosecond(Time t) { return {(t.ps + 500) / 1000 * 1000}; }

// Writes the trace event format (JSON object form) that Perfetto and chrome://tracing open, as it goes. Times are
// microseconds to the nanosecond. Perfetto rounds a slice's begin and its duration to nanoseconds, each by itself, and
// moves slices that overlap thereby to tracks of their own; finer times than these would make it do so.
class EventWriter {
 public:
  // `metadata`: members of the file's "otherData", as JSON without the braces.
  EventWriter(Sink sink, std::string_view metadata);

  // Processes and tracks are shown in the order of their numbers. Names may be any text.
  void name_process(int process, std::string_view name);
  void name_track(Track track, std::string_view name);

  // Names, categories and `args` (members of a JSON object without the braces) hold nothing that JSON escapes. Nothing
  // is written of a slice that ends in the nanosecond in which it begins.
  void slice(Track track, std::string_view name, std::string_view category, Time begin, Time end,
             std::string_view args = {});
  // From the slice that runs on `from` at `leaves` to the one that runs on `to` at `arrives`.
  void arrow(Track from, Time leaves, Track to, Time arrives);
  struct Series {
    std::string_view name;
    double value;
  };
  void counter(int process, std::string_view name, Time at, std::span<const Series> values);

  // Ends the file. Nothing may follow.
  void finish();

 private:
  void begin_event();

  Sink sink_;
  fmt::memory_buffer buffer_;
  bool first_ = true;
  std::int64_t arrows_ = 0;
};

}  // namespace foretrain::trace
