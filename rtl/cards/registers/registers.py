"""Generates RTL, Rust, C and documentation from register maps in SystemRDL.

Usage: registers.py FOLDER. For each *.rdl beside this file it writes to FOLDER NAME_registers.sv
and NAME_registers.rs, NAME.h (peakrdl-cheader) and NAME.md (peakrdl-markdown).
scripts/rtl-cards.sh checks that the committed files are up to date.

The RTL is generated here since peakrdl-regblock's uses unpacked structs, which Icarus lacks. It
supports the needs of these maps: 32-bit registers; fields written by software (`sw = rw`), with a
write strobe if `swmod`; and fields read by it (`sw = r`), with a read strobe if `swacc`.
"""

import subprocess
import sys
import textwrap
from pathlib import Path

from systemrdl import RDLCompiler

BESIDE = Path(__file__).resolve().parent


def registers(top):
    """Yields (name, address, description, fields) of each register."""
    for reg in top.registers():
        fields = [
            {
                "name": field.inst_name,
                "low": field.low,
                "width": field.width,
                "written": field.is_sw_writable,
                "tells": field.get_property("swmod"),
                "read": field.get_property("swacc"),
                "reset": field.get_property("reset") or 0,
                "what": field.get_property("desc"),
            }
            for field in reg.fields()
        ]
        yield reg.inst_name, reg.absolute_address, reg.get_property("name"), fields


def commented(text, prefix):
    """Returns `text` as comment lines of at most 100 columns."""
    return textwrap.wrap(text, 100, initial_indent=prefix, subsequent_indent=prefix)


def read_case(index, parts):
    """Returns the lines of a case that reads the concatenation `parts`."""
    line = f"      {index}: read_data_o = {{{', '.join(parts)}}};"
    if len(line) <= 100:
        return [line]
    indent = " " * 8
    return [
        f"      {index}: read_data_o = {{",
        *textwrap.wrap(", ".join(parts), 100, initial_indent=indent, subsequent_indent=indent),
        "      };",
    ]


def vector(width):
    return f"[{width - 1}:0]" if width > 1 else ""


def verilog(name, rows):
    """Returns the register file, for use behind msr_axi_lite_target."""
    ports, resets, writes, reads, tells, taken = [], [], [], [], [], []
    for reg, address, what, fields in rows:
        decoded = f"address_i == {ADDRESS_WIDTH - 2}'h{address >> 2:x}"
        parts, at = [], 32
        for field in sorted(fields, key=lambda field: -field["low"]):
            port = f"{reg.lower()}_{field['name']}"
            top = field["low"] + field["width"]
            if top < at:
                parts.append(f"{at - top}'b0")
            at = field["low"]
            suffix = "o" if field["written"] else "i"
            parts.append(f"{port}_{suffix}")
            direction = "output" if field["written"] else "input "
            ports += commented(f"{what}. {field['what']}.", "  /// ")
            ports.append(f"  {direction} logic {vector(field['width']):7}{port}_{suffix}")
            if field["written"]:
                width = field["width"]
                resets.append(f"      {port}_o <= {width}'d{field['reset']};")
                for byte in range(4):
                    low, high = max(8 * byte, at), min(8 * byte + 7, top - 1)
                    if low <= high:
                        if width == 1:
                            mine = ""
                        elif high == low:
                            mine = f"[{low - at}]"
                        else:
                            mine = f"[{high - at}:{low - at}]"
                        theirs = f"[{low}]" if high == low else f"[{high}:{low}]"
                        writes.append(
                            f"      if (write_i && {decoded} && strobe_i[{byte}]) "
                            f"{port}_o{mine} <= data_i{theirs};"
                        )
            if field["tells"]:
                ports += commented(f"{what}: written in the previous cycle.", "  /// ")
                ports.append(f"  output logic        {reg.lower()}_written_o")
                tells.append((f"{reg.lower()}_written_o", decoded))
            if field["read"]:
                ports += commented(f"{what}: read in this cycle.", "  /// ")
                ports.append(f"  output logic        {reg.lower()}_read_o")
                index = f"{ADDRESS_WIDTH - 2}'h{address >> 2:x}"
                taken.append(
                    f"  assign {reg.lower()}_read_o = read_i && read_address_i == {index};\n"
                )
        if at:
            parts.append(f"{at}'b0")
        index = f"{ADDRESS_WIDTH - 2}'h{address >> 2:x}"
        reads += read_case(index, parts)
    for port, decoded in tells:
        resets.append(f"      {port} <= 1'b0;")
        writes.append(f"      {port} <= write_i && {decoded};")
    listed = []
    for position, line in enumerate(ports):
        last = position == len(ports) - 1
        listed.append(line if line.lstrip().startswith("///") or last else line + ",")
    newline = "\n"
    width = ADDRESS_WIDTH - 3
    return f"""/// Registers of {name}: generated by registers.py from {name}.rdl.
///
/// Latency: a write is visible in the next cycle; reads are combinational.
module {name}_registers (
  input  logic        clk_i,
  input  logic        rst_ni,
  /// Write, and its word's address.
  input  logic        write_i,
  input  logic [{width}:0] address_i,
  input  logic [31:0] data_i,
  input  logic [3:0]  strobe_i,
  /// Read, its word's address, and its data.
  input  logic        read_i,
  input  logic [{width}:0] read_address_i,
  output logic [31:0] read_data_o,
{newline.join(listed)}
);

  always_comb begin
    case (read_address_i)
{newline.join(reads)}
      default: read_data_o = '0;
    endcase
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
{newline.join(resets)}
    end else begin
{newline.join(writes)}
    end
  end

{"".join(taken)}
  logic unused;
  assign unused = ^{{data_i, strobe_i, read_i}};

endmodule
"""


def rust(name, title, rows):
    """Returns the addresses, and each field as a shift and a mask."""
    text = (
        f"//! Registers of the {title.lower()}: generated by registers.py from {name}.rdl.\n"
        "//!\n//! Addresses are in bytes; a `Field` is a bit range of a register.\n\n"
        "/// A bit range of a 32-bit register.\n"
        "#[derive(Clone, Copy, Debug, PartialEq, Eq)]\n"
        "pub struct Field {\n    /// The lowest bit.\n    pub low: u32,\n"
        "    /// The width, bits.\n    pub width: u32,\n}\n\n"
        "impl Field {\n"
        "    /// The register's bits for `value`, truncated to the field.\n    #[must_use]\n"
        "    pub const fn put(self, value: u32) -> u32 {\n"
        "        (value & self.mask()) << self.low\n    }\n\n"
        "    /// The field's value in a register.\n    #[must_use]\n"
        "    pub const fn get(self, register: u32) -> u32 {\n"
        "        register >> self.low & self.mask()\n    }\n\n"
        "    const fn mask(self) -> u32 {\n        u32::MAX >> (32 - self.width)\n    }\n}\n"
    )
    for reg, address, what, fields in rows:
        text += f"\n/// {what}.\npub const {reg}: u32 = {address:#04x};\n"
        for field in sorted(fields, key=lambda field: field["low"]):
            text += "\n".join(commented(f"{what}. {field['what']}.", "/// ")) + "\n"
            text += (
                f"pub const {reg}_{field['name'].upper()}: Field = "
                f"Field {{ low: {field['low']}, width: {field['width']} }};\n"
            )
    return text


ADDRESS_WIDTH = 8


def main(folder):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for source in sorted(BESIDE.glob("*.rdl")):
        compiler = RDLCompiler()
        compiler.compile_file(str(source))
        top = compiler.elaborate().top
        rows = list(registers(top))
        name = top.inst_name
        (folder / f"{name}_registers.sv").write_text(verilog(name, rows))
        (folder / f"{name}_registers.rs").write_text(rust(name, top.get_property("name"), rows))
        for tool, suffix in (("c-header", "h"), ("markdown", "md")):
            output = folder / f"{name}.{suffix}"
            subprocess.run(
                ["peakrdl", tool, source.name, "-o", str(output.absolute())], cwd=BESIDE, check=True
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
