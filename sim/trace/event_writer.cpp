#include "sim/trace/event_writer.h"

#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

namespace foretrain::trace {
namespace {

constexpr std::size_t kBlock = 1 << 16;

std::string quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// A time in microseconds, for formatting.
struct Microseconds {
  std::int64_t ns;
};

}  // namespace
}  // namespace foretrain::trace

template <>
struct fmt::formatter<foretrain::trace::Microseconds> : fmt::formatter<std::string_view> {
  auto format(foretrain::trace::Microseconds t, fmt::format_context& context) const {
    return fmt::format_to(context.out(), "{}.{:03}", t.ns / 1'000, t.ns % 1'000);
  }
};

namespace foretrain::trace {
namespace {

Microseconds us(Time t) { return {to_nanosecond(t).ps / 1'000}; }

}  // namespace

EventWriter::EventWriter(Sink sink, std::string_view metadata) : sink_(std::move(sink)) {
  fmt::format_to(std::back_inserter(buffer_),
                 "{{\"displayTimeUnit\":\"ms\",\n\"otherData\":{{{}}},\n\"traceEvents\":[\n", metadata);
}

void EventWriter::name_process(int process, std::string_view name) {
  begin_event();
  fmt::format_to(std::back_inserter(buffer_),
                 R"({{"ph":"M","pid":{0},"name":"process_name","args":{{"name":{1}}}}},)"
                 "\n"
                 R"({{"ph":"M","pid":{0},"name":"process_sort_index","args":{{"sort_index":{0}}}}})",
                 process, quoted(name));
}

void EventWriter::name_track(Track track, std::string_view name) {
  begin_event();
  fmt::format_to(std::back_inserter(buffer_),
                 R"({{"ph":"M","pid":{0},"tid":{1},"name":"thread_name","args":{{"name":{2}}}}},)"
                 "\n"
                 R"({{"ph":"M","pid":{0},"tid":{1},"name":"thread_sort_index","args":{{"sort_index":{1}}}}})",
                 track.process, track.thread, quoted(name));
}

void EventWriter::slice(Track track, std::string_view name, std::string_view category, Time begin, Time end,
                        std::string_view args) {
  begin = to_nanosecond(begin);
  end = to_nanosecond(end);
  if (begin == end) return;
  begin_event();
  fmt::format_to(std::back_inserter(buffer_), R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":"{}","cat":"{}")",
                 track.process, track.thread, us(begin), us(end - begin), name, category);
  if (args.empty())
    buffer_.push_back('}');
  else
    fmt::format_to(std::back_inserter(buffer_), R"(,"args":{{{}}}}})", args);
}

void EventWriter::arrow(Track from, Time leaves, Track to, Time arrives) {
  begin_event();
  fmt::format_to(
      std::back_inserter(buffer_),
      R"({{"ph":"s","id":{0},"pid":{1},"tid":{2},"ts":{3},"name":"dependency","cat":"dependency"}},)"
      "\n"
      R"({{"ph":"f","bp":"e","id":{0},"pid":{4},"tid":{5},"ts":{6},"name":"dependency","cat":"dependency"}})",
      ++arrows_, from.process, from.thread, us(leaves), to.process, to.thread, us(arrives));
}

void EventWriter::counter(int process, std::string_view name, Time at, std::span<const Series> values) {
  begin_event();
  fmt::format_to(std::back_inserter(buffer_), R"({{"ph":"C","pid":{},"ts":{},"name":"{}","args":{{)", process, us(at),
                 name);
  const char* separator = "";
  for (const Series& series : values) {
    fmt::format_to(std::back_inserter(buffer_), R"({}"{}":{})", separator, series.name, series.value);
    separator = ",";
  }
  buffer_.append(std::string_view("}}"));
}

void EventWriter::finish() {
  buffer_.append(std::string_view("\n]}\n"));
  sink_({buffer_.data(), buffer_.size()});
  buffer_.clear();
}

void EventWriter::begin_event() {
  if (buffer_.size() >= kBlock) {
    sink_({buffer_.data(), buffer_.size()});
    buffer_.clear();
  }
  if (!std::exchange(first_, false)) buffer_.append(std::string_view(",\n"));
}

}  // namespace foretrain::trace
