#pragma once

#include <memory>
#include <string_view>

#include "sim/trace/event_writer.h"

namespace foretrain::trace {

// Compresses what it is given (gzip, RFC 1952) and hands it on. The same text makes the same bytes: no name, no time.
class Gzip {
 public:
  explicit Gzip(Sink sink);
  ~Gzip();
  void write(std::string_view text);
  void finish();  // once, at the end

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
};

}  // namespace foretrain::trace
