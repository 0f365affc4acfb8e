//! A policy file: its keys, and how it tightens the rules in force. Errors have the form of those of
//! `python/howdah/tomlfile.py`: the file, the key, and the allowed values.

use std::path::Path;

use howdah_units::Bytes;
use toml::{Table, Value};

use super::{Policy, Ports, SEE, in_words};
use crate::{check_pattern, shown};

/// Adds the rules of a file to those in force.
///
/// # Errors
/// For what is no policy.
pub fn tighten(policy: &mut Policy, path: &Path, text: &[u8]) -> Result<(), String> {
    let at = path.display();
    let text =
        str::from_utf8(text).map_err(|_| format!("{at} is not TOML: it is no UTF-8; {SEE}"))?;
    let whole: Table = text.parse().map_err(|error: toml::de::Error| {
        format!(
            "{at} is not TOML: {}; {SEE}",
            shown(&error.message().replace('\n', " "))
        )
    })?;
    known(&whole, "", &["audit", "ssh", "data", "programs", "quota"])
        .and_then(|()| take(policy, path, &whole))
        .map_err(|problem| format!("{at}: {problem}"))
}

fn take(policy: &mut Policy, path: &Path, whole: &Table) -> Result<(), String> {
    let mut set = Vec::new();
    if let Some(value) = whole.get("audit") {
        let word = value
            .as_str()
            .ok_or_else(|| expected("audit", "a text", value))?;
        match word {
            "on" => {}
            "required" if policy.audit_required => {}
            "required" => {
                policy.audit_required = true;
                set.push("audit");
            }
            _ => {
                return Err(format!(
                    "audit: '{}' is unknown; give on or required; {SEE}",
                    shown(word)
                ));
            }
        }
    }
    let ssh = table(whole, "ssh", &["keep_logins", "far_ends"])?;
    if !flag(ssh, "ssh", "keep_logins")? && std::mem::take(&mut policy.keep_logins) {
        set.push("ssh.keep_logins");
    }
    if let Some(value) = ssh.and_then(|ssh| ssh.get("far_ends")) {
        policy.far_ends.push((path.to_owned(), far_ends(value)?));
        set.push("ssh.far_ends");
    }
    let data = table(whole, "data", &["plaintext", "delete", "ports"])?;
    if !flag(data, "data", "plaintext")? && std::mem::take(&mut policy.plaintext) {
        set.push("data.plaintext");
    }
    if !flag(data, "data", "delete")? && std::mem::take(&mut policy.delete) {
        set.push("data.delete");
    }
    if let Some(value) = data.and_then(|data| data.get("ports")) {
        let ports = asked_ports(value)?;
        if policy.ports != Some(ports) {
            policy.ports = Some(both(policy, ports)?);
            set.push("data.ports");
        }
    }
    let programs = table(whole, "programs", &["load"])?;
    if !flag(programs, "programs", "load")? && std::mem::take(&mut policy.load_programs) {
        set.push("programs.load");
    }
    let quota = table(whole, "quota", &["copy", "day"])?;
    for (key, name, most) in [
        ("quota.copy", "copy", &mut policy.copy_bytes),
        ("quota.day", "day", &mut policy.day_bytes),
    ] {
        if let Some(value) = quota.and_then(|quota| quota.get(name)) {
            let limit = size(key, value)?;
            if most.is_none_or(|most| limit < most) {
                *most = Some(limit);
                set.push(key);
            }
        }
    }
    policy
        .set_by
        .extend(set.into_iter().map(|key| (key, path.to_owned())));
    Ok(())
}

/// Refuses keys that a table has not.
fn known(table: &Table, within: &str, names: &[&str]) -> Result<(), String> {
    match table.keys().find(|key| !names.contains(&key.as_str())) {
        Some(key) => Err(format!(
            "{within}unknown key {}; known are {}; {SEE}",
            shown(key),
            names.join(", ")
        )),
        None => Ok(()),
    }
}

fn table<'a>(whole: &'a Table, name: &str, keys: &[&str]) -> Result<Option<&'a Table>, String> {
    let Some(value) = whole.get(name) else {
        return Ok(None);
    };
    let found = value
        .as_table()
        .ok_or_else(|| expected(name, "a table", value))?;
    known(found, &format!("{name}: "), keys)?;
    Ok(Some(found))
}

/// A flag that is true unless it is given.
fn flag(table: Option<&Table>, within: &str, name: &str) -> Result<bool, String> {
    match table.and_then(|table| table.get(name)) {
        None => Ok(true),
        Some(Value::Boolean(flag)) => Ok(*flag),
        Some(other) => Err(expected(
            &format!("{within}.{name}"),
            "true or false",
            other,
        )),
    }
}

fn expected(key: &str, what: &str, found: &Value) -> String {
    let found = match found {
        Value::String(_) => "a text",
        Value::Integer(_) => "a whole number",
        Value::Float(_) => "a number",
        Value::Boolean(_) => "true or false",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "a list",
        Value::Table(_) => "a table",
    };
    format!("{key}: expected {what}, got {found}; {SEE}")
}

fn size(key: &str, value: &Value) -> Result<u64, String> {
    let text = value
        .as_str()
        .ok_or_else(|| expected(key, "a text with a unit, as \"20TB\"", value))?;
    // What is wrong with a long text is wrong with what is shown of it, too.
    match text.parse().or_else(|_| shown(text).parse::<Bytes>()) {
        Ok(size) => Ok(size.0),
        Err(_) if text.trim() == "0" => Err(format!(
            "{key}: size \"0\" has no unit; write 0B where nothing may be moved; {SEE}"
        )),
        Err(error) => Err(format!("{key}: {error}; {SEE}")),
    }
}

fn asked_ports(value: &Value) -> Result<Ports, String> {
    let text = value
        .as_str()
        .ok_or_else(|| expected("data.ports", "a text", value))?;
    let problem = |problem| format!("data.ports: {problem}; {SEE}");
    range(text).map_err(problem)
}

/// The first and the last port of a range as `50000-50100`, or of one port.
///
/// # Errors
/// In words, if the text is not a range.
pub fn ports(text: &str) -> Result<Ports, String> {
    range(text).map_err(|problem| format!("ports {problem}"))
}

fn range(text: &str) -> Result<Ports, String> {
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| {
        let digits =
            (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse::<u16>().ok()).flatten()
    };
    number(least)
        .zip(number(most))
        .filter(|&(least, most)| 0 < least && least <= most)
        .ok_or_else(|| {
            let text = shown(text);
            format!("'{text}' is no range of ports; give for example \"50000-50999\"")
        })
}

/// The ports that two ranges have in common.
pub fn common(one: Ports, other: Ports) -> Option<Ports> {
    let shared = (one.0.max(other.0), one.1.min(other.1));
    (shared.0 <= shared.1).then_some(shared)
}

/// The ports that both this file and those before it allow.
fn both(policy: &Policy, ports: Ports) -> Result<Ports, String> {
    let Some(before) = policy.ports else {
        return Ok(ports);
    };
    common(ports, before).ok_or_else(|| {
        let by = policy.set_by.get("data.ports");
        format!(
            "data.ports: {} has no port of {}, which {} allows; give ports of that range",
            in_words(ports),
            in_words(before),
            by.unwrap_or(&policy.places.site).display()
        )
    })
}

fn far_ends(value: &Value) -> Result<Vec<String>, String> {
    let list = value
        .as_array()
        .ok_or_else(|| expected("ssh.far_ends", "a list", value))?;
    if list.is_empty() {
        return Err(format!(
            "ssh.far_ends is empty: no far end would be allowed; leave the key out for all; {SEE}"
        ));
    }
    let pattern = |(index, value): (usize, &Value)| {
        let place = format!("ssh.far_ends {}", index + 1);
        let text = value
            .as_str()
            .ok_or_else(|| expected(&place, "a text", value))?;
        check_pattern(text).map_err(|problem| format!("{place}: {problem}; {SEE}"))?;
        Ok(text.to_owned())
    };
    list.iter().enumerate().map(pattern).collect()
}
