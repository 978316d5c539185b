// One verilated msr_core behind a C interface. Included once for each configuration, which defines
// MODEL, NAME and kStreams; the structs are repeated in model.rs.
//
// A cycle is two calls: `settle` sets the inputs and lets the combinational outputs follow,
// `clock` makes the rising edge and lets them follow again.

#include <cstdint>
#include <memory>

#include "verilated.h"

namespace {

struct Inputs {
  uint64_t load;
  uint64_t packet_valid;
  uint16_t stamp[64];
  uint16_t step;
  uint8_t rst_n, config, load_valid, load_id, decide;
};

struct Outputs {
  uint64_t take, dropped, violation, range;
  uint16_t now;
  uint8_t ready, decided, winner_valid, winner;
};

struct Stream {
  uint16_t deadline, arrival, missed, violations, serviced;
  uint8_t x, y, valid, id;
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

template <typename T>
void stamps(T& port, const uint16_t* stamp) {
  uint64_t all = 0;
  for (int i = 0; i < kStreams; i++) all |= static_cast<uint64_t>(stamp[i]) << (16 * i);
  port = static_cast<T>(all);
}

template <std::size_t W>
void stamps(VlWide<W>& port, const uint16_t* stamp) {
  for (int i = 0; i < kStreams / 2; i++) {
    port[i] = stamp[2 * i] | static_cast<uint32_t>(stamp[2 * i + 1]) << 16;
  }
}

struct Model {
  VerilatedContext context;
  MODEL top{&context};
};

}  // namespace

extern "C" {

void* NAME(new)() { return new Model; }

void NAME(free)(void* model) { delete static_cast<Model*>(model); }

void NAME(settle)(void* model, const Inputs* in, Outputs* out) {
  MODEL& top = static_cast<Model*>(model)->top;
  top.clk_i = 0;
  top.rst_ni = in->rst_n;
  top.cfg_i = in->config;
  top.load_valid_i = in->load_valid;
  top.load_id_i = in->load_id;
  top.load_i = in->load;
  top.packet_valid_i = in->packet_valid;
  stamps(top.packet_stamp_i, in->stamp);
  top.decide_i = in->decide;
  top.step_i = in->step;
  top.eval();
  out->take = top.packet_take_o;
  out->dropped = top.dropped_o;
  out->violation = top.violation_o;
  out->range = top.range_o;
  out->now = top.now_o;
  out->ready = top.ready_o;
  out->decided = top.decided_o;
  out->winner_valid = top.winner_valid_o;
  out->winner = top.winner_o;
}

void NAME(clock)(void* model) {
  MODEL& top = static_cast<Model*>(model)->top;
  top.clk_i = 1;
  top.eval();
}

void NAME(stream)(void* model, int i, Stream* out) {
  const MODEL& top = static_cast<Model*>(model)->top;
  const int head = 55 * i, count = 48 * i;
  out->arrival = bits(top.heads_o, head, 16);
  out->y = bits(top.heads_o, head + 16, 8);
  out->x = bits(top.heads_o, head + 24, 8);
  out->deadline = bits(top.heads_o, head + 32, 16);
  out->id = bits(top.heads_o, head + 48, 6);
  out->valid = bits(top.heads_o, head + 54, 1);
  out->serviced = bits(top.counts_o, count, 16);
  out->violations = bits(top.counts_o, count + 16, 16);
  out->missed = bits(top.counts_o, count + 32, 16);
}

uint64_t NAME(list)(void* model, int i) {
  return bits(static_cast<Model*>(model)->top.list_o, 7 * i, 7);
}
}
