//! Folders that a scan has found and not read yet, the last one first. Only the name of each is kept, so that a
//! folder with hundreds of thousands of subfolders takes little memory.

use howdah_filter::Folder;
use howdah_wire::TreePath;

/// The folders of one source that are not read yet.
#[derive(Debug, Default)]
pub struct UnreadFolders(Vec<Siblings>);

/// Those that are in one folder.
#[derive(Debug)]
struct Siblings {
    within: TreePath,
    /// The rules there.
    rules: Folder,
    /// Their names one behind the other, each with its length behind it.
    names: Vec<u8>,
}

impl UnreadFolders {
    /// Adds a folder in another one, with the filter rules there.
    pub fn add(&mut self, within: &TreePath, rules: &Folder, folder: &TreePath) {
        let name = folder.as_bytes().rsplit(|&byte| byte == b'/').next();
        let name = name.unwrap_or_default();
        if self.0.last().is_none_or(|last| last.within != *within) {
            self.0.push(Siblings {
                within: within.clone(),
                rules: rules.clone(),
                names: Vec::new(),
            });
        }
        if let Some(siblings) = self.0.last_mut() {
            siblings.names.extend_from_slice(name);
            let len = u8::try_from(name.len()).expect("a path has no longer names");
            siblings.names.push(len);
        }
    }

    /// Takes the folder that was added last, with the filter rules of the folder above it.
    pub fn pop(&mut self) -> Option<(TreePath, Folder)> {
        loop {
            let siblings = self.0.last_mut()?;
            let Some(len) = siblings.names.pop() else {
                self.0.pop();
                continue;
            };
            let at = siblings.names.len() - usize::from(len);
            let path = siblings.within.join(&siblings.names[at..]);
            siblings.names.truncate(at);
            let path = path.expect("it was a path when it was found");
            return Some((path, siblings.rules.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(path: &str) -> TreePath {
        TreePath::try_from(path.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn what_is_found_last_is_read_first_and_all_of_it_once() {
        let mut unread = UnreadFolders::default();
        let long = "x".repeat(255);
        let mut found = |within: &str, names: &[&str]| {
            for name in names {
                let folder = path(within).join(name.as_bytes()).unwrap();
                unread.add(&path(within), &Folder::default(), &folder);
            }
            let (next, _) = unread.pop()?;
            Some(String::from_utf8(next.as_bytes().to_vec()).unwrap())
        };
        let mut read = found("", &["a", "b", &long])
            .into_iter()
            .collect::<Vec<_>>();
        read.extend(found(&long, &["c", "d"]));
        read.extend(found(&format!("{long}/d"), &[]));
        read.extend(found(&format!("{long}/c"), &["e"]));
        read.extend(found(&format!("{long}/c/e"), &[]));
        read.extend(found("b", &["a"]));
        read.extend(found("b/a", &[]));
        let below = |rest: &str| format!("{long}/{rest}");
        let expected = [
            &long,
            &below("d"),
            &below("c"),
            &below("c/e"),
            "b",
            "b/a",
            "a",
        ];
        assert_eq!(read, expected.map(str::to_owned));
        assert_eq!(found("a", &[]), None);
    }
}
