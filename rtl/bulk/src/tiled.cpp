// The functions of a verilated msr_tiled_core with its queues. Included once for each
// configuration, in a namespace of its own, with MODEL, kStreams and kWidth.

#include <deque>
#include <memory>

#include "bits.h"

namespace {

struct Model {
  VerilatedContext context;
  MODEL top{&context};
  std::deque<uint16_t> queues[kStreams];
  // The fronts requested in the previous cycle.
  bool read = false;
  int tile = 0;

  // Runs a cycle; `seen` observes the outputs before its rising edge.
  template <typename F>
  void cycle(F seen) {
    uint16_t stamp[kWidth] = {};
    uint64_t valid = 0;
    for (int i = 0; i < kWidth && read; i++) {
      const std::deque<uint16_t>& queue = queues[tile * kWidth + i];
      if (queue.empty()) continue;
      valid |= 1ull << i;
      stamp[i] = queue.front();
    }
    top.clk_i = 0;
    top.packet_valid_i = valid;
    stamps(top.packet_stamp_i, stamp, kWidth);
    top.eval();
    for (int i = 0; i < kWidth; i++) {
      if (top.packet_take_o >> i & 1) queues[top.take_tile_o * kWidth + i].pop_front();
    }
    read = top.front_read_o;
    tile = top.front_tile_o;
    seen();
    top.clk_i = 1;
    top.eval();
  }
};

void* create() {
  Model* model = new Model;
  model->top.rst_ni = 0;
  model->cycle([] {});
  model->top.rst_ni = 1;
  return model;
}

void destroy(void* model) { delete static_cast<Model*>(model); }

void load(void* handle, uint8_t config, int id, uint64_t load) {
  Model& model = *static_cast<Model*>(handle);
  model.queues[id].clear();
  model.top.cfg_i = config;
  model.top.load_id_i = id;
  model.top.load_i = load;
  model.top.load_valid_i = 1;
  for (bool done = false; !done;) model.cycle([&] { done = model.top.load_ready_o; });
  model.top.load_valid_i = 0;
}

void offer(void* handle, int id, uint16_t stamp) {
  static_cast<Model*>(handle)->queues[id].push_back(stamp);
}

// Starts a decision and runs until the next could start. Reports the decision that ends meanwhile,
// usually the previous one.
void decide(void* handle, uint16_t step, Decided* out) {
  Model& model = *static_cast<Model*>(handle);
  MODEL& top = model.top;
  *out = Decided{};
  top.step_i = step;
  top.decide_i = 1;
  auto seen = [&] {
    if (!top.decided_o) return;
    out->decided_after = out->cycles;
    out->decisions++;
    out->winner = top.winner_o;
    out->winner_valid = top.winner_valid_o;
  };
  bool ready = false;
  while (!ready) model.cycle([&] { ready = top.ready_o; if (ready) seen(); });
  top.decide_i = 0;
  for (ready = false; !ready;) {
    out->cycles++;
    top.clk_i = 0;
    top.eval();
    ready = top.ready_o;
    if (!ready) model.cycle(seen);
  }
  out->now = top.now_o;
}

// Returns the pending decision, if any, once it ends.
void finish(void* handle, Decided* out) {
  Model& model = *static_cast<Model*>(handle);
  *out = Decided{};
  for (bool idle = false; !idle; out->cycles++) {
    model.cycle([&] {
      idle = model.top.load_ready_o;
      if (!model.top.decided_o) return;
      out->decided_after = out->cycles;
      out->decisions++;
      out->winner = model.top.winner_o;
      out->winner_valid = model.top.winner_valid_o;
    });
  }
  out->now = model.top.now_o;
}

// Reads the contexts of a tile, whose number is first in `out`; returns those outside the window.
uint64_t inspect(void* handle, int tile, Stream* out) {
  Model& model = *static_cast<Model*>(handle);
  uint64_t range = 0;
  model.top.inspect_tile_i = tile;
  model.top.inspect_i = 1;
  for (bool granted = false; !granted;) model.cycle([&] { granted = model.top.inspect_ready_o; });
  model.top.inspect_i = 0;
  for (bool done = false; !done;) {
    model.cycle([&] {
      done = model.top.inspected_o;
      if (!done) return;
      range = model.top.range_o;
      for (int i = 0; i < kWidth; i++) stream(model.top.heads_o, model.top.counts_o, i, out + i);
    });
  }
  return range;
}
}  // namespace
