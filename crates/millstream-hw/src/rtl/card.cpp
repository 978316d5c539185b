// C interface of a verilated card, loaded by card.rs. The structs match those in card.rs.
//
// A cycle sets the inputs, evaluates and returns the combinational outputs, then applies the rising
// edge. The build defines LINE_CARD for the line card.

#include <cstdint>

#ifdef LINE_CARD
#include "Vline_card.h"
using Top = Vline_card;
#else
#include "Vend_system.h"
using Top = Vend_system;
#endif
#include "verilated.h"

namespace {

struct Inputs {
  uint64_t data;
  uint32_t write_data;
  uint8_t rst_n, write, write_address, read, read_address;
  uint8_t data_valid, data_last, data_stream, pull_ready;
};

struct Outputs {
  uint64_t range, window_full;
  uint32_t read_data, written_time;
  uint16_t now, pull_count, written_stream;
  uint8_t write_ready, read_ready, read_valid, data_ready;
  uint8_t pull_valid, pull_stream, winner_waits, idle, started, written;
  uint8_t sent_valid, sent_last, sent_stream;
};

struct Model {
  VerilatedContext context;
  Top top{&context};
};

}  // namespace

extern "C" {

void* card_new() { return new Model; }

void card_free(void* model) { delete static_cast<Model*>(model); }

void card_cycle(void* model, const Inputs* in, Outputs* out) {
  Top& top = static_cast<Model*>(model)->top;
  top.clk_i = 0;
  top.rst_ni = in->rst_n;
  top.s_axil_awaddr = in->write_address;
  top.s_axil_awvalid = in->write;
  top.s_axil_wdata = in->write_data;
  top.s_axil_wstrb = 15;
  top.s_axil_wvalid = in->write;
  top.s_axil_bready = 1;
  top.s_axil_araddr = in->read_address;
  top.s_axil_arvalid = in->read;
  top.s_axil_rready = 1;
  top.s_axis_tdata = in->data;
  top.s_axis_tvalid = in->data_valid;
#ifdef LINE_CARD
  top.s_axis_tkeep = 0xFF;
  top.s_axis_tlast = in->data_last;
  top.s_axis_tdest = in->data_stream;
  top.m_axis_tready = 1;
#else
  top.pull_ready_i = in->pull_ready;
#endif
  top.eval();
  out->write_ready = top.s_axil_awready;
  out->read_ready = top.s_axil_arready;
  out->read_valid = top.s_axil_rvalid;
  out->read_data = top.s_axil_rdata;
  out->data_ready = top.s_axis_tready;
#ifdef LINE_CARD
  out->sent_valid = top.m_axis_tvalid;
  out->sent_last = top.m_axis_tlast;
  out->sent_stream = top.m_axis_tdest;
#else
  out->pull_valid = top.pull_valid_o;
  out->pull_stream = top.pull_stream_o;
  out->pull_count = top.pull_count_o;
  out->winner_waits = top.winner_waits_o;
  out->idle = top.idle_o;
  out->range = top.range_o;
  out->window_full = top.window_full_o;
  out->started = top.started_o;
  out->now = top.now_o;
  out->written = top.written_o;
  out->written_stream = top.written_stream_o;
  out->written_time = top.written_time_o;
#endif
  top.clk_i = 1;
  top.eval();
}
}
