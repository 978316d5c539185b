// The interface of the library of models. The structs match those in models.rs, model.rs and
// tiled.rs.
#ifndef MILLSTREAM_ROWS_H
#define MILLSTREAM_ROWS_H

#include <cstdint>

// The registers of one stream.
struct Stream {
  uint16_t deadline, arrival, missed, violations, serviced;
  uint8_t x, y, valid, id;
};

// The inputs of a cycle of msr_core or msr_pair_core.
struct Inputs {
  uint64_t load;
  uint64_t packet_valid;
  uint16_t stamp[64];
  uint16_t step;
  uint8_t rst_n, config, load_valid, load_id, decide;
};

// Its outputs.
struct Outputs {
  uint64_t take, dropped, violation, range;
  uint16_t now;
  uint8_t ready, decided, winner_valid, winner, load_ready;
};

// The results of a decision of msr_tiled_core.
struct Decided {
  uint64_t cycles, decided_after, decisions;
  uint16_t now;
  uint16_t winner;
  uint8_t winner_valid;
};

// A configuration of msr_core or msr_pair_core.
struct CoreRow {
  const char* name;
  uint32_t streams, block;
  bool winner_only, compute_ahead, sorted, tree, keyed;
  void* (*create)();
  void (*destroy)(void*);
  void (*settle)(void*, const Inputs*, Outputs*);
  void (*clock)(void*);
  void (*stream)(void*, int, Stream*);
  uint64_t (*list)(void*, int);
};

// A configuration of msr_tiled_core.
struct TiledRow {
  const char* name;
  uint32_t streams, width;
  void* (*create)();
  void (*destroy)(void*);
  void (*load)(void*, uint8_t, int, uint64_t);
  void (*offer)(void*, int, uint16_t);
  void (*decide)(void*, uint16_t, Decided*);
  void (*finish)(void*, Decided*);
  uint64_t (*inspect)(void*, int, Stream*);
};

// All configurations of a library.
struct Rows {
  // The sizes of the structs, which the caller compares with its own.
  uint32_t core_bytes, tiled_bytes;
  const CoreRow* cores;
  const CoreRow* pairs;
  const TiledRow* tiled;
  uint64_t core_count, pair_count, tiled_count;
};

#endif
