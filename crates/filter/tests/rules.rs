//! What lists of rules say, and that any text is read or refused.

use std::collections::HashMap;

use howdah_filter::{
    Filters, Folder, Given, Line, MAX_RULES, Option as By, Pattern, Removal, Side, Style, expand,
};
use proptest::prelude::*;

fn list(rules: &[&str]) -> Filters {
    let given: Vec<Given<'_>> = rules
        .iter()
        .map(|rule| (By::Filter, rule.as_bytes()))
        .collect();
    expand(&given, false, &mut |_| Err("no file".to_owned())).unwrap()
}

fn texts(list: &Filters) -> Vec<String> {
    let rules = Vec::<Vec<u8>>::from(list.clone());
    let text = |rule| String::from_utf8(rule).unwrap();
    rules.into_iter().map(text).collect()
}

fn refusal(rule: &str) -> String {
    Style::default()
        .read(rule.as_bytes())
        .unwrap_err()
        .to_string()
}

#[test]
fn every_way_to_write_a_rule_is_read() {
    for (written, canonical) in [
        ("- a", "- a"),
        ("-_a", "- a"),
        ("-,! a", "-! a"),
        ("exclude a b", "- a b"),
        ("exclude,p a", "-p a"),
        ("include_a", "+ a"),
        ("hide a", "-s a"),
        ("H,p a", "-sp a"),
        ("show a", "+s a"),
        ("protect a", "-r a"),
        ("R a", "+r a"),
        ("-rs a", "-rs a"),
        ("+  a ", "+  a "),
        ("dir-merge,n- .f", ":-n .f"),
        (":+w .f", ":+w .f"),
        (": /.f", ": .f"),
        (":sr .f", ":rs .f"),
    ] {
        assert_eq!(texts(&list(&[written])), [canonical], "{written}");
    }
    assert_eq!(texts(&list(&[":e .f"])), ["- .f", ": .f"]);
    assert_eq!(texts(&list(&["- a", "!", "+ b", "clear"])), [""; 0]);
    assert_eq!(texts(&list(&[": .f", "- a", ":n .f"])), [": .f", "- a"]);
}

#[test]
fn what_is_no_rule_is_refused_with_the_reason() {
    for (rule, says) in [
        ("a", "no known word"),
        ("excludes a", "no known word"),
        (" - a", "no known word"),
        ("-", "missing"),
        ("- ", "missing"),
        ("-a b", "modifier"),
        ("!x", "nothing may follow"),
        ("! ", "nothing may follow"),
        ("-C", "CVS"),
        (":C", "CVS"),
        ("-/ a", "absolute"),
        ("-x user.a", "extended attributes"),
        ("Hs a", "side"),
        (":! .f", "modifier"),
        ("-e a", "modifier"),
        (": a/b", "without folders"),
        (": ..", "without folders"),
        ("- a\0b", "NUL"),
    ] {
        let refused = refusal(rule);
        assert!(refused.contains(says), "{rule}: {refused}");
    }
    let long = "- ".to_owned() + &"x".repeat(5000);
    let refused = refusal(&long);
    assert!(
        refused.contains("longer") && refused.len() < 200,
        "{refused}"
    );
}

#[test]
fn options_keep_their_order_and_files_are_merged_where_they_are_named() {
    let files: HashMap<&[u8], &str> = HashMap::from([
        (b"x".as_slice(), "# of it\n\n; too\n*.o\n+ a\r- b\n"),
        (b"y", "- c\n. z\n+ e"),
        (b"z", "d1 d2\n#d3"),
        (b"w", "!\n+ f"),
    ]);
    let mut open = |name: &[u8]| {
        files
            .get(name)
            .map(|text| text.as_bytes().to_vec())
            .ok_or("none".to_owned())
    };
    let given: [Given<'_>; 4] = [
        (By::Include, b"- k"),
        (By::ExcludeFrom, b"x"),
        (By::Filter, b". y"),
        (By::Filter, b"merge,w- z"),
    ];
    let made = expand(&given, false, &mut open);
    // `z` without `-` has rules that are none.
    assert!(made.unwrap_err().to_string().contains("d1 d2"));
    let given = [given[0], given[1], given[3]];
    let made = expand(&given, false, &mut open).unwrap();
    assert_eq!(
        texts(&made),
        ["- k", "- *.o", "+ a", "- b", "- d1", "- d2", "- #d3"]
    );
    let cleared = [
        given[0],
        (By::IncludeFrom, b"w".as_slice()),
        (By::Exclude, b"g"),
    ];
    let made = expand(&cleared, false, &mut open).unwrap();
    assert_eq!(texts(&made), ["+ f", "- g"]);
    let by_nul = expand(&[(By::ExcludeFrom, b"n")], true, &mut |_| {
        Ok(b"a\nb\0c\0".to_vec())
    })
    .unwrap();
    assert_eq!(texts(&by_nul), ["- a\nb", "- c"]);
    let missing = expand(&[(By::Filter, b". none")], false, &mut open);
    assert_eq!(missing.unwrap_err().to_string(), "none");
}

#[test]
fn merged_files_and_lists_have_bounds() {
    let again = expand(&[(By::Filter, b". x")], false, &mut |_| {
        Ok(b". x\n. x".to_vec())
    });
    assert!(again.unwrap_err().to_string().contains("without end"));
    let rule = b"- a".to_vec();
    Filters::try_from(vec![rule.clone(); MAX_RULES]).unwrap();
    assert!(Filters::try_from(vec![rule; MAX_RULES + 1]).is_err());
    let long = [b"- ".as_slice(), &[b'x'; 4000]].concat();
    assert!(Filters::try_from(vec![long; 300]).is_err());
    for hostile in [b"".as_slice(), b"!", b". /etc/passwd", b":e .f", b"a"] {
        assert!(
            Filters::try_from(vec![hostile.to_vec()]).is_err(),
            "{hostile:?}"
        );
    }
}

#[test]
fn the_first_match_decides_and_each_end_has_its_rules() {
    let rules = list(&["+ /a/keep", "-s *.o", "-! */", "R x"]);
    let leave_out = |side, path: &str, is_folder| {
        rules.leave_out(side, &Folder::default(), path.as_bytes(), is_folder)
    };
    assert!(!leave_out(Side::Sender, "a/keep", false));
    assert!(leave_out(Side::Sender, "b/keep", false));
    assert!(leave_out(Side::Sender, "d.o", true));
    assert!(!leave_out(Side::Receiver, "d.o", true));
    assert!(!leave_out(Side::Sender, "d", true));
}

#[test]
fn what_is_left_out_is_protected_unless_that_goes_too() {
    let rules = list(&["-s sent", "-r kept", "-rs both", "-p perishes", "- out"]);
    let protects = |removal: Removal, name: &str| {
        rules.protect(removal, &Folder::default(), name.as_bytes(), false)
    };
    let usual = Removal::default();
    let excluded = Removal {
        excluded: true,
        ..usual
    };
    let perishes = Removal {
        perishes: true,
        ..usual
    };
    for (name, expected) in [
        ("sent", [false, false, false]),
        ("kept", [true, true, true]),
        ("both", [true, true, true]),
        ("perishes", [true, false, false]),
        ("out", [true, false, true]),
        ("other", [false, false, false]),
    ] {
        let made = [usual, excluded, perishes].map(|removal| protects(removal, name));
        assert_eq!(made, expected, "{name}");
    }
}

#[test]
fn filter_files_of_folders_are_inherited_and_the_nearest_comes_first() {
    let rules = list(&["+ always", ": .f", ":n- .n", "- last"]);
    let files: HashMap<(&str, &[u8]), &str> = HashMap::from([
        (("", b".f".as_slice()), "- /top\n- x\n- y"),
        (("a", b".f"), "+ x\n- /below"),
        (("a/b", b".f"), "!\n- z"),
        (("a", b".n"), "here"),
    ]);
    let enter = |path: &'static str, above: &Folder| {
        let mut open = |name: &[u8]| {
            Ok::<_, ()>(
                files
                    .get(&(path, name))
                    .map(|text| text.as_bytes().to_vec()),
            )
        };
        rules.enter(path.as_bytes(), above, &mut open).unwrap()
    };
    let top = enter("", &Folder::default());
    let a = enter("a", &top);
    let b = enter("a/b", &a);
    let out =
        |folder: &Folder, path: &str| rules.leave_out(Side::Sender, folder, path.as_bytes(), false);
    assert!(out(&top, "top") && out(&top, "x") && !out(&top, "always") && out(&top, "last"));
    assert!(!out(&a, "a/top") && !out(&a, "a/x") && out(&a, "a/y") && out(&a, "a/below"));
    assert!(out(&a, "a/here") && !out(&b, "a/b/here"));
    assert!(!out(&b, "a/b/y") && out(&b, "a/b/z") && !out(&b, "a/b/below"));
    let nested = |_: &[u8]| Ok::<_, ()>(Some(b". more".to_vec()));
    assert!(
        rules
            .enter(b"", &Folder::default(), &mut { nested })
            .is_err()
    );
}

fn some_text() -> impl Strategy<Value = Vec<u8>> {
    let any = prop::collection::vec(any::<u8>(), 0..40);
    let near = prop::collection::vec(
        prop::sample::select(&b"+-.:!,_ enwprs/ab*?[]HSPR"[..]),
        0..16,
    );
    prop_oneof![any, near]
}

proptest! {
    #[test]
    fn what_is_read_says_the_same_when_it_is_written(texts in prop::collection::vec(some_text(), 0..6)) {
        let mut list = Vec::new();
        for text in texts {
            if let Ok(Some(Line::Rule(rule))) = Style::default().read(&text) {
                list.push(rule.text());
            }
        }
        let read = Filters::try_from(list.clone()).unwrap();
        prop_assert_eq!(Vec::<Vec<u8>>::from(read), list);
    }

    #[test]
    fn any_text_is_a_file_of_rules_or_refused(text in some_text(), words: bool, nul: bool, bare: bool) {
        let style = Style { words, bare: bare.then_some(false), ..Style::default() };
        let _ = style.read_all(&text, nul);
    }

    #[test]
    fn a_plain_anchored_name_matches_itself_alone(names in prop::collection::vec("[ab]{1,2}", 1..4), other in prop::collection::vec("[ab]{1,2}", 1..4)) {
        let (path, other) = (names.join("/"), other.join("/"));
        let pattern = Pattern::new(format!("/{path}").as_bytes());
        prop_assert!(pattern.matches(path.as_bytes(), false, b""));
        prop_assert_eq!(pattern.matches(other.as_bytes(), false, b""), path == other);
        let inside = format!("{other}/{path}");
        prop_assert!(pattern.matches(inside.as_bytes(), false, other.as_bytes()));
    }

    #[test]
    fn the_deciding_rule_is_the_first_that_matches(patterns in prop::collection::vec(("[-+]", "[ab/*]{1,4}"), 0..6), path in "[ab]/[ab]{1,2}", is_folder: bool) {
        let rules: Vec<String> = patterns.iter().map(|(sign, pattern)| format!("{sign} {pattern}")).collect();
        let list = list(&rules.iter().map(String::as_str).collect::<Vec<_>>());
        let first = patterns.iter().find(|(_, pattern)| {
            Pattern::new(pattern.as_bytes()).matches(path.as_bytes(), is_folder, b"")
        });
        let out = list.leave_out(Side::Sender, &Folder::default(), path.as_bytes(), is_folder);
        prop_assert_eq!(out, first.is_some_and(|(sign, _)| sign == "-"));
    }
}
