// Sources of msr_tiled_core. Paths are relative to this file.
-F ../msr_core.f
src/msr_context_memory.sv
src/msr_tile_control.sv
src/msr_tile_network.sv
src/msr_tiled_core.sv
