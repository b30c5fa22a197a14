#include "sim/trace/gzip.h"

#include <zlib.h>

#include <array>
#include <new>
#include <utility>

namespace foretrain::trace {

struct Gzip::Stream {
  Sink sink;
  z_stream state{};
  std::array<char, 1 << 16> buffer{};

  void deflate_with(int flush) {
    do {
      state.next_out = reinterpret_cast<Bytef*>(buffer.data());
      state.avail_out = static_cast<uInt>(buffer.size());
      ::deflate(&state, flush);  // cannot fail: the state is consistent and there is room
      sink({buffer.data(), buffer.size() - state.avail_out});
    } while (state.avail_out == 0);
  }
};

Gzip::Gzip(Sink sink) : stream_(std::make_unique<Stream>()) {
  stream_->sink = std::move(sink);
  constexpr int kGzipHeader = 16, kWindowBits = 15, kMemory = 8;
  if (deflateInit2(&stream_->state, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kWindowBits + kGzipHeader, kMemory,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();
  }
}

Gzip::~Gzip() { deflateEnd(&stream_->state); }

void Gzip::write(std::string_view text) {
  stream_->state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));  // read only
  stream_->state.avail_in = static_cast<uInt>(text.size());
  stream_->deflate_with(Z_NO_FLUSH);
}

void Gzip::finish() { stream_->deflate_with(Z_FINISH); }

}  // namespace foretrain::trace
