//! Filter rules: those of a job, and the text of a filter file that lies in a folder.

pub mod rules {
    //! A style, a file of rules, and a path to hold them against.

    use howdah_filter::{Filters, Folder, Side, Sides, Style};

    use crate::input::Input;

    pub fn run(data: &[u8]) {
        let mut input = Input::new(data);
        let flags = input.byte();
        let side = match flags & 8 {
            0 => Side::Sender,
            _ => Side::Receiver,
        };
        let style = Style {
            unprefixed: (flags & 1 != 0).then_some(flags & 2 != 0),
            bare: (flags & 4 != 0).then_some(flags & 2 != 0),
            words: flags & 16 != 0,
            perishable: flags & 32 != 0,
            sides: (flags & 64 != 0).then_some(Sides::Only(side)),
        };
        let mut parts = data
            .get(1..)
            .unwrap_or_default()
            .splitn(2, |byte| *byte == 0);
        let text = parts.next().unwrap_or_default();
        let path = parts.next().unwrap_or_default();
        if let Err(error) = style.read_all(text, false) {
            let words = error.to_string();
            assert!(!words.is_empty() && words.len() < 1000 && !words.contains('\n'));
        }
        let lines: Vec<Vec<u8>> = text
            .split(|byte| *byte == b'\n')
            .map(<[u8]>::to_vec)
            .collect();
        let Ok(list) = Filters::try_from(lines) else {
            return;
        };
        let written = Vec::<Vec<u8>>::from(list.clone());
        let again = Filters::try_from(written.clone()).expect("it reads what it writes");
        assert_eq!(Vec::from(again), written);
        let mut open = |_: &[u8]| Ok::<_, ()>(Some(text.to_vec()));
        let folder = list
            .enter(b"a", &Folder::default(), &mut open)
            .unwrap_or_default();
        for is_folder in [false, true] {
            let first = list.first(side, &folder, path, is_folder);
            let left_out = list.leave_out(side, &folder, path, is_folder);
            assert_eq!(left_out, first.is_some_and(|rule| !rule.include));
        }
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        [
            "@- *.o\n+ /a/***\n-! */\0a/b.o",
            "\0: .f\n:n- .g\n- **/x\n+ [a-c]?\\*\n-s [[:alpha:]]/\0a/x/y",
            "\x01*.o\n#a\n!x\0b.o",
            "\x14- a + b !\0a",
            "@dir-merge,+ .f\nhide,p a/b\nrisk c/\n-rs x**y\0a/b",
        ]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
    }
}
