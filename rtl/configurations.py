"""The checked variants of the cores: `configurations.toml` and `scaling/configurations.toml`.

Usage: configurations.py SELECTION prints the name, the top module and the parameters of each
variant, a line each, as Verilator takes them. SELECTION is `all`, `quick` (those marked so) or
names with commas between.
"""

import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

RTL = Path(__file__).resolve().parent

# The flags of a row of msr_core, and their parameters.
FLAGS = {
    "winner_only": "WinnerOnly",
    "compute_ahead": "ComputeAhead",
    "sorted": "Sorted",
    "tree": "Tree",
    "keyed": "Keyed",
}


@dataclass
class Configuration:
    """A variant: its row of the file, and its top module with the parameters."""

    row: dict
    top: str
    parameters: dict

    @property
    def name(self):
        """The name."""
        return self.row["name"]


def core(row):
    """Returns a variant of msr_core."""
    flags = {parameter: int(row.get(flag, False)) for flag, parameter in FLAGS.items()}
    parameters = {"N": row["streams"], **flags, "Block": row.get("block", 1)}
    return Configuration(row, "msr_core", parameters)


def pair(row):
    """Returns a variant of msr_pair_core."""
    return Configuration(row, "msr_pair_core", {"N": row["streams"]})


def tiled(row):
    """Returns a variant of msr_tiled_core."""
    parameters = {"Streams": row["streams"], "Width": row["width"]}
    return Configuration(row, "msr_tiled_core", parameters)


def chosen(selection):
    """Returns the selected variants, in the order of the files; exits if a name is unknown."""
    cores = tomllib.loads((RTL / "configurations.toml").read_text())
    scaling = tomllib.loads((RTL / "scaling/configurations.toml").read_text())
    known = [
        *map(core, cores["configuration"] + scaling["block"]),
        *map(pair, cores["pair"]),
        *map(tiled, scaling["tiled"]),
    ]
    if selection == "all":
        return known
    if selection == "quick":
        return [one for one in known if one.row["quick"]]
    names = {one.name for one in known}
    if unknown := set(selection.split(",")) - names:
        sys.exit(f"no configuration is called {sorted(unknown)}; known: {sorted(names)}")
    return [one for one in known if one.name in selection.split(",")]


def options(configuration):
    """Returns the parameters of a variant as options of Verilator."""
    return [f"-G{key}={value}" for key, value in configuration.parameters.items()]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for one in chosen(sys.argv[1]):
        print(one.name, one.top, *options(one))
