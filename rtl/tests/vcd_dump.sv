/// A second root beside the core: writes what the control unit and the core's ports do to
/// `timeline.vcd`.
module vcd_dump;
  initial begin
    $dumpfile("timeline.vcd");
    $dumpvars(1, msr_core);
    $dumpvars(1, msr_core.u_control);
  end
endmodule
