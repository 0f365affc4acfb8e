//! The programs of howdah: one for each folder of `controls` with a `program.bpf.c`.

use howdah_cc_model::{About, Parameter};
use serde::Serialize;

use crate::Error;

/// A congestion control as a BPF program.
#[derive(Debug)]
pub struct Program {
    /// The name for users. If Linux has the control, it is also Linux's name for its own version.
    pub name: &'static str,
    /// What the control does, in one line.
    pub summary: &'static str,
    /// The parameters of its model, in the order of the program.
    pub parameters: &'static [Parameter],
    /// The compiled program.
    pub(crate) object: &'static [u8],
}

/// A parameter's value, in the program's unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The parameter's name.
    pub name: &'static str,
    /// The value in the program's unit.
    pub value: u64,
    /// The value as users write it.
    pub text: String,
}

impl Setting {
    /// A value with its text.
    #[must_use]
    pub fn new(parameter: &Parameter, value: u64) -> Self {
        Setting {
            name: parameter.name,
            value,
            text: parameter.unit.show(value),
        }
    }
}

/// A compiled program. libbpf reads headers in place, so the file must lie as ELF wants it.
macro_rules! object {
    ($name:literal) => {{
        const OBJECT: &[u8] = &$crate::program::Aligned(*include_bytes!(concat!(
            env!("OUT_DIR"),
            "/",
            $name,
            ".bpf.o"
        )))
        .0;
        OBJECT
    }};
}
pub(crate) use object;

#[repr(align(8))]
pub(crate) struct Aligned<T>(pub T);

/// Every program, in the order of the names. `build.rs` makes the table.
pub static PROGRAMS: &[Program] = include!(concat!(env!("OUT_DIR"), "/programs.rs"));

const fn program(name: &'static str, about: &About, object: &'static [u8]) -> Program {
    Program {
        name,
        summary: about.summary,
        parameters: about.parameters,
        object,
    }
}

impl Program {
    /// The program called `name`, with or without the kernel's `hd_`.
    pub fn find(name: &str) -> Result<&'static Self, Error> {
        let bare = name.strip_prefix("hd_").unwrap_or(name);
        PROGRAMS
            .iter()
            .find(|program| program.name == bare)
            .ok_or_else(|| Error::UnknownProgram {
                name: name.to_owned(),
                known: Self::names().join(", "),
            })
    }

    /// The names of all programs.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        PROGRAMS.iter().map(|program| program.name).collect()
    }

    /// A hash that differs between builds of the same version (FNV-1a of the compiled program).
    pub(crate) fn digest(&self) -> u64 {
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        self.object.iter().fold(0xcbf2_9ce4_8422_2325, mix)
    }

    /// The values of all parameters, in the program's order: those in `given`, as text, and defaults for the others.
    pub fn values(&self, given: &[(String, String)]) -> Result<Vec<u64>, Error> {
        self.values_over(None, given)
    }

    /// The values of all parameters, as [`Self::values`], with the values of an earlier load in place of the
    /// defaults.
    pub(crate) fn values_over(
        &self,
        earlier: Option<&[u64]>,
        given: &[(String, String)],
    ) -> Result<Vec<u64>, Error> {
        let defaults = self.parameters.iter().map(|each| each.default);
        let mut values: Vec<u64> = match earlier {
            Some(values) => values[..self.parameters.len()].to_vec(),
            None => defaults.collect(),
        };
        for (name, text) in given {
            let place = self.parameters.iter().position(|each| each.name == name);
            let Some(place) = place else {
                return Err(Error::UnknownParameter {
                    program: self.name,
                    name: name.clone(),
                    known: self.known_parameters(),
                });
            };
            values[place] = self.parse(&self.parameters[place], text)?;
        }
        Ok(values)
    }

    fn parse(&self, parameter: &Parameter, text: &str) -> Result<u64, Error> {
        let wrong = |why: String| Error::Parameter {
            program: self.name,
            name: parameter.name,
            why,
            range: parameter.range(),
        };
        let value = parameter.unit.parse(text.trim()).map_err(wrong)?;
        if parameter.allows(value) {
            Ok(value)
        } else {
            Err(wrong(format!(
                "{} is out of range",
                parameter.unit.show(value)
            )))
        }
    }

    fn known_parameters(&self) -> String {
        if self.parameters.is_empty() {
            return "it has none".to_owned();
        }
        let names: Vec<_> = self.parameters.iter().map(|each| each.name).collect();
        format!("it has {}", names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use libbpf_rs::btf::{
        Btf, BtfKind,
        types::{Struct, Var},
    };

    use super::*;

    /// The names of the numbers that a compiled program reads as its parameters, in their order.
    fn declared(program: &Program) -> Vec<String> {
        let btf = Btf::from_raw(program.name, program.object)
            .unwrap()
            .unwrap();
        let Some(section) = btf.type_by_name::<Var<'_>>("parameters") else {
            return vec![];
        };
        let Some(fields) = section
            .next_type()
            .map(|found| found.skip_mods_and_typedefs())
        else {
            panic!("a variable without a type");
        };
        assert_eq!(fields.kind(), BtfKind::Struct);
        let fields = Struct::try_from(fields).unwrap();
        let name = |index| fields.get(index)?.name?.to_str();
        (0..fields.len())
            .map(|index| name(index).unwrap().to_owned())
            .collect()
    }

    #[test]
    fn programs_declare_the_parameters_of_their_tables() {
        for program in PROGRAMS {
            let named: Vec<_> = program.parameters.iter().map(|each| each.name).collect();
            assert_eq!(declared(program), named, "{}", program.name);
        }
    }
}
