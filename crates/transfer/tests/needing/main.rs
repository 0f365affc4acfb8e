//! Tests that need root, or rsync, or a file system that not each machine has, and the other tests of the same
//! subjects.
//!
//! Without what they need they are shown as ignored, with the reason; in CI they fail.

#[path = "../ends/mod.rs"]
#[allow(dead_code, reason = "other tests need the rest of it")]
mod ends;
#[path = "../between/far_ends.rs"]
#[allow(dead_code, reason = "other tests need the rest of it")]
mod far_ends;
#[path = "../../../cc/tests/privilege/mod.rs"]
mod privilege;

mod accounts;
mod closed;
mod delete;
mod dry_run;
mod filters;
mod flags;
mod full;
mod keep;
mod receiver;
mod refused;
mod skip;
mod sources;
mod walk;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde_json::{Value, json};

use ends::job;
use privilege::{missing_root, missing_rsync, tests};

/// Gives this thread, and those it starts, mounts of their own.
fn own_mounts() {
    // SAFETY: no memory is shared in a new way; only this thread's view of mounts changes.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNS) }, 0);
    run("mount", &["--make-rprivate", "/"]);
}

fn run(program: &str, arguments: &[&str]) -> String {
    let done = Command::new(program).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{program} {arguments:?}: {said}");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// A file system, mounted in a mount namespace of this thread and those it starts.
struct Disk {
    base: tempfile::TempDir,
}

impl Disk {
    fn ext4() -> Self {
        let disk = Self::new();
        let image = disk.base.path().join("image");
        File::create_new(&image).unwrap().set_len(64 << 20).unwrap();
        let image = image.to_str().unwrap();
        run("mkfs.ext4", &["-q", "-F", image]);
        disk.mount(&["-o", "loop", image]);
        disk
    }

    fn of_memory(kind: &str) -> Self {
        let disk = Self::new();
        disk.mount(&["-t", kind, kind]);
        disk
    }

    fn new() -> Self {
        own_mounts();
        let base = tempfile::tempdir().unwrap();
        fs::create_dir(base.path().join("disk")).unwrap();
        Self { base }
    }

    fn mount(&self, what: &[&str]) {
        run("mount", &[what, &[self.root().to_str().unwrap()]].concat());
    }

    fn root(&self) -> PathBuf {
        self.base.path().join("disk")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.root()).output();
    }
}

fn keeping(direction: &str, source: &Path, target: &Path, keep: Value) -> Value {
    let mut job = job(direction, &[&source.join(".")], target);
    job["destination_is_folder"] = json!(true);
    job["keep"] = keep;
    job
}

fn main() -> ExitCode {
    let root = tests![
        closed::a_folder_of_another_user_and_one_that_is_not_of_the_copy_stay_closed,
        delete::what_cannot_be_removed_is_named_and_the_rest_goes,
        flags::a_file_system_gives_the_flags_that_it_has,
        flags::a_file_system_without_flags_takes_none,
        flags::flags_are_kept_with_attributes,
        full::what_the_source_has_not_goes_from_a_disk_that_is_full,
        keep::what_was_not_asked_for_is_not_kept,
        receiver::a_program_that_gets_another_user_or_group_acts_as_it_only_where_owners_and_modes_are_kept,
        receiver::a_sender_plants_nothing_on_links_and_special_files_either,
        receiver::root_removes_what_a_cut_copy_has_given_to_another_user_unless_one_writes_it,
        receiver::what_a_full_disk_does_not_take_stays_in_memory,
        refused::a_root_that_cannot_be_written_ends_the_copy,
        refused::a_user_copies_all_but_what_others_keep_for_themselves,
        refused::attributes_that_a_user_may_not_give_end_nothing,
        refused::nothing_is_removed_where_it_could_not_be_looked_into,
        refused::what_a_file_system_cannot_hold_is_left_out_before_it_is_sent,
        refused::what_is_fixed_or_mounted_is_left_out_before_it_is_sent,
        refused::what_is_mounted_at_the_target_is_not_emptied_with_what_the_source_has_not,
    ];
    let rsync = tests![
        dry_run::a_new_target_is_listed_itself_and_a_named_source_by_its_name,
        dry_run::the_list_is_that_of_rsync_and_what_the_copy_then_does,
        filters::howdah_leaves_out_what_rsync_leaves_out,
        filters::howdah_removes_what_rsync_removes,
        keep::rsync_finds_nothing_to_do_after_an_ordinary_user,
        skip::each_option_sends_what_it_sends_with_rsync,
        sources::a_list_leaves_the_folder_that_takes_it_alone_unless_it_names_the_source_as_with_rsync,
        sources::of_what_several_sources_have_the_first_ones_arrives_as_with_rsync,
        walk::each_option_on_links_copies_what_it_copies_with_rsync,
    ];
    let both = tests![
        accounts::access_lists_tell_names_as_rsync_does,
        keep::rsync_finds_nothing_to_do_after_root,
        walk::what_is_mounted_in_the_source_stays_out_as_in_rsync,
    ];
    let times = tests![skip::times_that_cannot_be_told_from_others_skip_nothing];
    let others = tests![
        closed::a_copy_that_leaves_something_out_closes_its_folders_and_the_next_one_opens_them,
        closed::a_folder_that_keeps_its_own_mode_has_it_again_at_the_end,
        closed::what_is_in_a_closed_folder_is_there_for_who_ignores_what_is_there,
        closed::what_is_new_in_a_closed_folder_is_copied_and_it_is_closed_again,
        delete::a_copy_that_is_stopped_in_the_middle_goes_on,
        delete::a_far_end_that_is_confined_removes_in_its_folder_alone_and_one_that_is_read_alone_nothing,
        delete::a_new_target_has_nothing_to_remove,
        delete::only_what_is_copied_as_a_whole_folder_is_cleaned,
        delete::the_target_becomes_what_the_source_is_either_way,
        delete::what_cannot_be_read_switches_removal_off,
        delete::where_more_would_go_than_may_nothing_goes,
        delete::without_the_wish_nothing_is_removed,
        keep::names_of_one_file_stay_names_of_one_file,
        keep::runs_of_zeros_become_holes,
        keep::special_files_are_counted_apart_from_links,
        skip::thousands_of_files_are_compared_and_sent_in_few_offers,
        skip::where_nothing_new_is_made_a_new_target_stays_away,
        skip::names_of_one_file_that_are_all_newer_stay_without_a_complaint,
        sources::a_fifo_that_is_named_is_kept_where_those_in_a_tree_are,
        sources::a_folder_and_a_file_of_the_same_name_do_not_mix_and_a_line_says_so,
        sources::a_source_that_cannot_be_copied_is_left_out_and_named_and_the_others_arrive,
        sources::names_of_one_file_in_several_sources_stay_together,
        sources::what_is_said_to_be_empty_and_is_not_is_left_out_and_named,
        sources::what_the_first_source_does_not_send_keeps_nothing_out,
        sources::where_no_source_can_be_copied_the_copy_fails,
        walk::links_that_lead_back_are_named_and_not_followed_for_ever,
        walk::no_link_leads_out_of_a_folder_that_is_served,
    ];
    privilege::run([
        (missing_root(), root),
        (missing_rsync(), rsync),
        (missing_root().or_else(missing_rsync), both),
        (skip::missing_times(), times),
        (None, others),
    ])
}
