//! The cache on its own: its place, its key, its entries and what leaves it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use tempfile::TempDir;

use super::*;

const ENGINE: &str = "0123456789abcdef0123";

fn digest(n: u8) -> Digest {
    Digest::from_bytes([n; 32])
}

fn manifest(n: u8) -> Manifest {
    Manifest { digest: digest(n), size: 9, artifact_key: ENGINE.to_owned(), definitions: Vec::new() }
}

/// A place for a cache, which is not there yet.
fn place() -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("cache");
    (dir, path)
}

fn open(path: &Path) -> Cache {
    Cache::open(&CachePlace::At(path.to_owned()), ENGINE.to_owned()).unwrap().unwrap()
}

fn refusal(path: &Path) -> String {
    match Cache::open(&CachePlace::At(path.to_owned()), ENGINE.to_owned()) {
        Ok(_) => panic!("the cache was used"),
        Err(error) => error.to_string(),
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn artifact(cache: &Cache, n: u8) -> Option<Vec<u8>> {
    cache.load(digest(n)).map(|entry| entry.artifact().to_vec())
}

#[test]
fn what_is_stored_is_found_by_a_later_process() {
    let (_dir, path) = place();
    let path = path.join("deep");
    let cache = open(&path);
    assert!(cache.load(digest(1)).is_none());
    cache.store(digest(1), manifest(1), b"one").unwrap();
    cache.store(digest(1), manifest(1), b"one again").unwrap();
    assert_eq!(artifact(&open(&path), 1), Some(b"one again".to_vec()));
    assert_eq!(fs::read_dir(&path).unwrap().count(), 2, "the key and one entry");
}

#[test]
fn directory_key_and_entries_are_closed_to_others() {
    let (_dir, path) = place();
    open(&path).store(digest(1), manifest(1), b"one").unwrap();
    assert_eq!(mode(&path), 0o700);
    for file in fs::read_dir(&path).unwrap() {
        assert_eq!(mode(&file.unwrap().path()), 0o600);
    }
}

#[test]
fn a_directory_that_is_open_to_others_is_not_used() {
    let (_dir, path) = place();
    fs::create_dir(&path).unwrap();
    set_mode(&path, 0o750);
    let shown = path.display();
    assert_eq!(
        refusal(&path),
        format!(
            "compiled code is not kept, because the cache {shown} is not used: \
             others may use it (mode 0750): run chmod 700 on it"
        )
    );
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0, "nothing was written");
}

#[test]
fn a_link_in_place_of_the_directory_is_not_followed() {
    let (dir, real) = place();
    let link = dir.path().join("link");
    open(&real);
    symlink(&real, &link).unwrap();
    assert!(refusal(&link).ends_with("it is a symbolic link: name the directory itself"), "{}", refusal(&link));
}

#[test]
fn a_key_that_others_can_read_or_that_is_cut_is_not_used() {
    let (_dir, path) = place();
    open(&path);
    let key = path.join("key");
    set_mode(&key, 0o644);
    assert!(refusal(&path).ends_with("others may use it (mode 0644): run chmod 600 on it"));
    set_mode(&key, 0o600);
    fs::write(&key, [0; 31]).unwrap();
    assert!(refusal(&path).ends_with("the key file is damaged, it does not have 32 bytes: remove it"));
}

#[test]
fn an_entry_under_another_name_is_ignored() {
    let (_dir, place) = place();
    let cache = open(&place);
    cache.store(digest(1), manifest(1), b"one").unwrap();
    cache.store(digest(2), manifest(2), b"two").unwrap();
    let path = |n| place.join(cache.name(digest(n)));
    fs::rename(path(1), place.join("x")).unwrap();
    fs::rename(path(2), path(1)).unwrap();
    fs::rename(place.join("x"), path(2)).unwrap();
    assert_eq!((artifact(&cache, 1), artifact(&cache, 2)), (None, None));
}

#[test]
fn an_entry_that_is_a_link_a_pipe_or_huge_is_ignored() {
    let (_dir, place) = place();
    let cache = open(&place);
    cache.store(digest(1), manifest(1), b"one").unwrap();
    let path = |n| place.join(cache.name(digest(n)));
    symlink(path(1), path(2)).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, path(3), rustix::fs::Mode::RUSR).unwrap();
    let huge = fs::File::create(path(4)).unwrap();
    huge.set_len(1 << 40).unwrap();
    set_mode(&path(4), 0o600);
    assert_eq!([2, 3, 4].map(|n| artifact(&cache, n)), [None, None, None]);
}

#[test]
fn processes_that_start_at_once_agree_on_one_key() {
    let (_dir, path) = place();
    let keys: Vec<_> = std::thread::scope(|scope| {
        let open = || open(&path).key.as_bytes().to_vec();
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(keys.iter().all(|key| *key == keys[0]));
    assert_eq!(fs::read_dir(&path).unwrap().count(), 1, "the key alone");
}

#[test]
fn what_is_old_or_too_much_leaves_and_the_newest_stays() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    let file = |name: &str, seconds_ago: u64, size| Listed {
        used: now - Duration::from_secs(seconds_ago),
        name: name.to_owned(),
        size,
    };
    let files = || {
        vec![
            file("old", 100, 1),
            file("new", 1, 40),
            file("middle", 10, 60),
            file(".new-0000000000000001", 30, 500),
            file(".new-0000000000000002", 4_000, 500),
        ]
    };
    let names = |bytes_max, unused_max| superfluous(files(), now, bytes_max, Duration::from_secs(unused_max));
    assert_eq!(names(101, 100), [".new-0000000000000002"]);
    assert_eq!(names(100, 100), ["old", ".new-0000000000000002"]);
    assert_eq!(names(99, 99), ["middle", "old", ".new-0000000000000002"]);
}

#[test]
fn eviction_touches_nothing_but_entries() {
    let (_dir, place) = place();
    let cache = open(&place);
    cache.store(digest(1), manifest(1), b"one").unwrap();
    fs::write(place.join("notes.txt"), "mine").unwrap();
    cache.evict(SystemTime::now() + Duration::from_secs(3 * SECONDS_PER_DAY), u64::MAX, 2).unwrap();
    let mut left: Vec<_> = fs::read_dir(&place).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["key", "notes.txt"]);
}

#[test]
fn an_entry_that_was_used_counts_as_new() {
    let (_dir, place) = place();
    let cache = open(&place);
    for n in [1, 2] {
        cache.store(digest(n), manifest(n), b"code").unwrap();
        let file = fs::File::open(place.join(cache.name(digest(n)))).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(3 * SECONDS_PER_DAY)).unwrap();
    }
    assert!(artifact(&cache, 2).is_some());
    cache.evict(SystemTime::now(), u64::MAX, 2).unwrap();
    assert_eq!((artifact(&cache, 1), artifact(&cache, 2)), (None, Some(b"code".to_vec())));
}

#[test]
fn the_users_cache_is_where_the_environment_says() {
    let at = |xdg: &str, home: &str| {
        let variables = [("XDG_CACHE_HOME", xdg.to_owned()), ("HOME", home.to_owned())];
        let find = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
        user_cache(find).ok()
    };
    assert_eq!(at("/x", "/home/a"), Some("/x/toolcell/compiled".into()));
    assert_eq!(at("", "/home/a"), Some("/home/a/.cache/toolcell/compiled".into()));
    assert_eq!(at("relative", "/home/a"), Some("/home/a/.cache/toolcell/compiled".into()));
    assert_eq!(at("", ""), None);
}
