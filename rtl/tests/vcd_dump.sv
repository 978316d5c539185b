/// A second root beside the core: writes the signals of the control unit and the core's ports to
/// `timeline.vcd`.
module vcd_dump;
  initial begin
    $dumpfile("timeline.vcd");
    $dumpvars(1, msr_core);
    $dumpvars(1, msr_core.u_control);
  end
endmodule
