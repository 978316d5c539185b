// Sources of the cards. Paths are relative to this file.
-F ../msr_core.f
registers/msr_end_system_registers.sv
registers/msr_line_card_registers.sv
src/msr_arrival_bank.sv
src/msr_axi_lite_target.sv
src/msr_end_system.sv
src/msr_line_card.sv
src/msr_line_card_input.sv
src/msr_line_card_output.sv
src/msr_packet_queue.sv
src/msr_streaming_unit.sv
src/msr_tx_scheduler.sv
