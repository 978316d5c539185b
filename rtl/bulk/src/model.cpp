// The functions of a verilated msr_core, or msr_pair_core, which has no list. Included once for
// each configuration, in a namespace of its own, with MODEL, LIST and kStreams.
//
// A cycle is two calls: `settle` sets the inputs and evaluates the combinational outputs; `clock`
// applies the rising edge and evaluates them again.

#include <cstdint>
#include <memory>

#include "bits.h"

namespace {

struct Model {
  VerilatedContext context;
  MODEL top{&context};
};

void* create() { return new Model; }

void destroy(void* model) { delete static_cast<Model*>(model); }

void settle(void* model, const Inputs* in, Outputs* out) {
  MODEL& top = static_cast<Model*>(model)->top;
  top.clk_i = 0;
  top.rst_ni = in->rst_n;
  top.cfg_i = in->config;
  top.load_valid_i = in->load_valid;
  top.load_id_i = in->load_id;
  top.load_i = in->load;
  top.packet_valid_i = in->packet_valid;
  stamps(top.packet_stamp_i, in->stamp, kStreams);
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
  out->load_ready = top.load_ready_o;
}

void clock(void* model) {
  MODEL& top = static_cast<Model*>(model)->top;
  top.clk_i = 1;
  top.eval();
}

void stream_of(void* model, int i, Stream* out) {
  const MODEL& top = static_cast<Model*>(model)->top;
  stream(top.heads_o, top.counts_o, i, out);
}

uint64_t list_of(void* model, int i) {
#if LIST
  return bits(static_cast<Model*>(model)->top.list_o, 7 * i, 7);
#else
  return 0;
#endif
}
}  // namespace
