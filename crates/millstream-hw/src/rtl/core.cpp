// C interface of a verilated msr_core, loaded by model.rs. The structs match those in model.rs.
//
// `core_settle` sets the inputs and evaluates the combinational outputs; `core_clock` applies the
// rising edge. The build defines STREAMS and TIME_BITS.

#include <cstdint>

#include "Vcore.h"
#include "verilated.h"

namespace {

constexpr int kHead = 1 + 6 + 2 * TIME_BITS + 16, kCounts = 48, kWords = (64 * TIME_BITS) / 32;

struct Inputs {
  uint64_t packet_valid, step;
  uint64_t stamp[64];
  uint32_t load[4];
  uint8_t rst_n, config, load_valid, load_id, decide;
};

struct Outputs {
  uint64_t take, dropped, range, now;
  uint8_t ready, first_valid, first;
};

struct Stream {
  uint64_t deadline;
  uint16_t missed, violations;
  uint8_t x, y, valid;
};

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

template <std::size_t W>
void put(VlWide<W>& port, int low, int width, uint64_t value) {
  for (int done = 0; done < width;) {
    const int word = (low + done) / 32, offset = (low + done) % 32;
    const int here = width - done < 32 - offset ? width - done : 32 - offset;
    const uint32_t mask = static_cast<uint32_t>(((1ull << here) - 1) << offset);
    port[word] = (port[word] & ~mask) | (static_cast<uint32_t>((value >> done) << offset) & mask);
    done += here;
  }
}

struct Model {
  VerilatedContext context;
  Vcore top{&context};
};

}  // namespace

extern "C" {

void* core_new() { return new Model; }

void core_free(void* model) { delete static_cast<Model*>(model); }

void core_settle(void* model, const Inputs* in, Outputs* out) {
  Vcore& top = static_cast<Model*>(model)->top;
  top.clk_i = 0;
  top.rst_ni = in->rst_n;
  top.cfg_i = in->config;
  top.load_valid_i = in->load_valid;
  top.load_id_i = in->load_id;
  for (int i = 0; i < 4; i++) top.load_i[i] = in->load[i];
  top.packet_valid_i = in->packet_valid;
  for (int i = 0; i < STREAMS; i++) {
    put(top.packet_stamp_i, i * TIME_BITS, TIME_BITS, in->stamp[i]);
  }
  top.decide_i = in->decide;
  top.step_i = in->step;
  top.eval();
  out->take = top.packet_take_o;
  out->dropped = top.dropped_o;
  out->range = top.range_o;
  out->now = top.now_o;
  out->ready = top.ready_o;
  out->first_valid = bits(top.list_o, 6, 1);
  out->first = bits(top.list_o, 0, 6);
}

void core_clock(void* model) {
  Vcore& top = static_cast<Model*>(model)->top;
  top.clk_i = 1;
  top.eval();
}

void core_stream(void* model, int i, Stream* out) {
  const Vcore& top = static_cast<Model*>(model)->top;
  const int head = kHead * i, count = kCounts * i;
  out->y = bits(top.heads_o, head + TIME_BITS, 8);
  out->x = bits(top.heads_o, head + TIME_BITS + 8, 8);
  out->deadline = bits(top.heads_o, head + TIME_BITS + 16, TIME_BITS);
  out->valid = bits(top.heads_o, head + kHead - 1, 1);
  out->violations = bits(top.counts_o, count + 16, 16);
  out->missed = bits(top.counts_o, count + 32, 16);
}
}
