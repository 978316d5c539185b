// Fields of verilated ports of any width.
#ifndef MILLSTREAM_BITS_H
#define MILLSTREAM_BITS_H

#include <cstdint>

#include "rows.h"
#include "verilated.h"

namespace {

template <typename T>
uint64_t bits(const T& port, int low, int width) {
  return (static_cast<uint64_t>(port) >> low) & ((1ull << width) - 1);
}

template <std::size_t W>
uint64_t bits(const VlWide<W>& port, int low, int width) {
  uint64_t value = 0;
  for (int done = 0; done < width;) {
    const int word = (low + done) / 32, offset = (low + done) % 32;
    value |= static_cast<uint64_t>(port[word] >> offset) << done;
    done += 32 - offset;
  }
  return value & ((1ull << width) - 1);
}

template <typename T>
void stamps(T& port, const uint16_t* stamp, int count) {
  uint64_t all = 0;
  for (int i = 0; i < count; i++) all |= static_cast<uint64_t>(stamp[i]) << (16 * i);
  port = static_cast<T>(all);
}

template <std::size_t W>
void stamps(VlWide<W>& port, const uint16_t* stamp, int count) {
  for (int i = 0; i < count / 2; i++) {
    port[i] = stamp[2 * i] | static_cast<uint32_t>(stamp[2 * i + 1]) << 16;
  }
}

// Stream `i` of the ports `heads_o` and `counts_o`.
template <typename H, typename C>
void stream(const H& heads, const C& counts, int i, Stream* out) {
  const int head = 55 * i, count = 48 * i;
  out->arrival = bits(heads, head, 16);
  out->y = bits(heads, head + 16, 8);
  out->x = bits(heads, head + 24, 8);
  out->deadline = bits(heads, head + 32, 16);
  out->id = bits(heads, head + 48, 6);
  out->valid = bits(heads, head + 54, 1);
  out->serviced = bits(counts, count, 16);
  out->violations = bits(counts, count + 16, 16);
  out->missed = bits(counts, count + 32, 16);
}

}  // namespace

#endif
