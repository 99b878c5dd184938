//! Which files become tools, and what is said of the others.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use rustix::fs::{CWD, Mode};
use toolcell_toolbox::{CachePlace, Error, Options, Toolbox};

use crate::guest::{answering, encode};
use crate::support::{Place, call, codes, find, names, rejected, sandbox};

async fn open_error(path: &std::path::Path) -> Error {
    let options = Options { cache: CachePlace::Off, ..Options::default() };
    Toolbox::open(path, sandbox(), options).await.unwrap_err()
}

#[tokio::test]
async fn a_file_dropped_into_the_directory_is_a_tool() {
    let place = Place::new();
    let bytes = answering("greet", "hello");
    place.put("greet.wasm", &bytes);
    let toolbox = place.open().await;
    assert_eq!(call(&toolbox, find(&toolbox, "greet")).await, "hello");

    let files = toolbox.components();
    assert_eq!(files.len(), 1);
    assert_eq!((files[0].file().as_str(), files[0].size()), ("greet.wasm", bytes.len() as u64));
    assert_eq!(find(&toolbox, "greet").digest, Some(files[0].digest()));
    assert_eq!(toolbox.last_report().warnings.len(), 0);
}

#[tokio::test]
async fn a_missing_directory_is_an_error_that_names_it() {
    let place = Place::new();
    let path = place.file("nowhere");
    let text = format!("there is no tools directory at {}: create it and put .wasm components into it", path.display());
    assert_eq!(open_error(&path).await.to_string(), text);
}

#[tokio::test]
async fn a_file_in_place_of_the_directory_is_an_error_that_names_it() {
    let place = Place::new();
    place.put("math.wasm", "");
    let path = place.file("math.wasm");
    let text = format!("{} is not a directory: name the directory that holds the .wasm components", path.display());
    assert_eq!(open_error(&path).await.to_string(), text);
}

#[tokio::test]
async fn a_mistyped_directory_leaves_no_cache_behind() {
    let place = Place::new();
    let options = Options { cache: CachePlace::At(place.cache()), ..Options::default() };
    Toolbox::open(place.file("nowhere"), sandbox(), options).await.unwrap_err();
    assert!(!place.cache().exists());
}

#[tokio::test]
async fn an_empty_directory_is_a_toolbox_without_tools() {
    let toolbox = Place::new().open().await;
    assert_eq!((names(&toolbox), codes(&toolbox)), (vec![], vec![]));
}

#[tokio::test]
async fn other_and_hidden_files_are_ignored() {
    let place = Place::new();
    for name in ["README.md", ".hidden.wasm", ".wasm", "math.wasm.bak", "MATH.WASM"] {
        place.put(name, "text");
    }
    let toolbox = place.open().await;
    assert_eq!((names(&toolbox), codes(&toolbox)), (vec![], vec![]));
}

#[tokio::test]
async fn bad_files_are_reported_and_the_others_load() {
    let place = Place::new();
    let good = answering("greet", "hello");
    place.put("a-text.wasm", "(component)");
    place.put("b-empty.wasm", "");
    place.put("c-module.wasm", wat::parse_str("(module)").unwrap());
    place.put("d-world.wasm", encode("package a:b; world w { export run: func(); }", "w", RUN));
    place.put("e-cut.wasm", &good[..good.len() / 2]);
    place.put("f-good.wasm", &good);
    let toolbox = place.open().await;
    let expected = [
        ("a-text.wasm", "not-a-component"),
        ("b-empty.wasm", "not-a-component"),
        ("c-module.wasm", "not-a-component"),
        ("d-world.wasm", "wrong-world"),
        ("e-cut.wasm", "not-a-component"),
    ];
    assert_eq!(codes(&toolbox), expected.map(|(file, code)| (file.to_owned(), code)));
    assert_eq!(names(&toolbox), ["greet"]);
}

const RUN: &str = r#"(module (func (export "run")))"#;

#[tokio::test]
async fn machine_code_in_the_directory_is_never_taken_for_a_component() {
    let place = Place::new();
    let sandbox = sandbox();
    let component = sandbox.compile(&answering("greet", "hello")).unwrap();
    place.put("greet.wasm", sandbox.artifact(&component).unwrap());
    let toolbox = place.open().await;
    assert_eq!(codes(&toolbox), [("greet.wasm".to_owned(), "not-a-component")]);
}

#[tokio::test]
async fn what_is_no_file_is_skipped_with_a_reason() {
    let place = Place::new();
    place.put("real", answering("greet", "hello"));
    symlink(place.file("real"), place.file("a-link.wasm")).unwrap();
    symlink("/nowhere", place.file("b-broken.wasm")).unwrap();
    fs::create_dir(place.file("c-directory.wasm")).unwrap();
    rustix::fs::mkfifoat(CWD, place.file("d-pipe.wasm"), Mode::RWXU).unwrap();
    let _socket = UnixListener::bind(place.file("e-socket.wasm")).unwrap();
    let toolbox = place.open().await;
    let link =
        "it is a symbolic link, and what it leads to could change unseen: put the file itself into the directory";
    assert_eq!(
        toolbox.rejected(),
        [
            rejected("a-link.wasm", "not-a-file", link),
            rejected("b-broken.wasm", "not-a-file", link),
            rejected("c-directory.wasm", "not-a-file", "it is a directory, not a file"),
            rejected("d-pipe.wasm", "not-a-file", "it is a named pipe, not a file"),
            rejected("e-socket.wasm", "not-a-file", "it is a socket, not a file"),
        ]
    );
}

#[tokio::test]
async fn a_link_to_the_directory_itself_is_followed() {
    let place = Place::new();
    place.put("greet.wasm", answering("greet", "hello"));
    let link = place.cache();
    symlink(place.tools(), &link).unwrap();
    let options = Options { cache: CachePlace::Off, ..Options::default() };
    assert_eq!(names(&Toolbox::open(&link, sandbox(), options).await.unwrap()), ["greet"]);
}

#[tokio::test]
async fn a_huge_file_is_refused_before_it_is_read() {
    let place = Place::new();
    File::create(place.file("huge.wasm")).unwrap().set_len(1 << 40).unwrap();
    let toolbox = place.open().await;
    let reason = "it has 1099511627776 bytes; a component may have 33554432";
    assert_eq!(toolbox.rejected(), [rejected("huge.wasm", "too-large", reason)]);
}

#[tokio::test]
async fn a_file_may_be_as_large_as_its_limit_and_no_larger() {
    let place = Place::new();
    let bytes = answering("greet", "hello");
    place.put("greet.wasm", &bytes);
    for (max, loaded) in [(bytes.len() as u64, 1), (bytes.len() as u64 - 1, 0)] {
        let options = Options { cache: CachePlace::Off, file_bytes_max: max, ..Options::default() };
        assert_eq!(place.open_with(options).await.unwrap().components().len(), loaded);
    }
}

#[tokio::test]
async fn a_file_that_may_not_be_read_is_reported() {
    let place = Place::new();
    place.put("secret.wasm", answering("greet", "hello"));
    fs::set_permissions(place.file("secret.wasm"), fs::Permissions::from_mode(0o000)).unwrap();
    let expected = match File::open(place.file("secret.wasm")) {
        // The superuser may read everything.
        Ok(_) => vec![],
        Err(error) => vec![rejected("secret.wasm", "unreadable", &format!("it cannot be read: {error}"))],
    };
    assert_eq!(place.open().await.rejected(), expected);
}

#[tokio::test]
async fn hostile_names_are_shown_escaped_and_names_that_are_no_text_are_skipped() {
    let place = Place::new();
    place.put("a\n\u{1b}[2J\u{202e}.wasm", "text");
    place.put("it's größe.wasm", answering("greet", "hello"));
    let long = format!("{}.wasm", "l".repeat(250));
    place.put(&long, "text");
    fs::write(place.tools().join(OsStr::from_bytes(b"z\xff\n.wasm")), "text").unwrap();
    let toolbox = place.open().await;
    assert_eq!(
        codes(&toolbox),
        [
            ("a\\n\\u{1b}[2J\\u{202e}.wasm".to_owned(), "not-a-component"),
            (long, "not-a-component"),
            ("z\\xff\\n.wasm".to_owned(), "bad-file-name"),
        ]
    );
    assert_eq!(toolbox.components()[0].file(), "it's größe.wasm");
}

#[tokio::test]
async fn only_so_many_files_are_read() {
    let place = Place::new();
    for name in ["a", "b", "c", "d", "e"] {
        place.put(&format!("{name}.wasm"), answering(name, name));
    }
    let open = |files_max| place.open_with(Options { cache: CachePlace::Off, files_max, ..Options::default() });
    let toolbox = open(3).await.unwrap();
    assert_eq!(names(&toolbox), ["a", "b", "c"]);
    let reason = "the directory holds 5 .wasm files and only the first 3 by name are read: 2 are left out, from this \
                  one on; remove some or raise files_max";
    assert_eq!(toolbox.rejected(), [rejected("d.wasm", "too-many-files", reason)]);
    assert_eq!(codes(&open(5).await.unwrap()), []);
}

#[tokio::test]
async fn a_directory_that_anybody_may_write_to_is_warned_of() {
    let place = Place::new();
    fs::set_permissions(place.tools(), fs::Permissions::from_mode(0o777)).unwrap();
    let warnings: Vec<_> = place.open().await.last_report().warnings.iter().map(ToString::to_string).collect();
    let path = place.tools();
    let text = format!(
        "others may write to the tools directory {}, so they choose which code runs: run chmod o-w on it, or own it",
        path.display()
    );
    assert_eq!(warnings, [text]);
}

#[tokio::test]
async fn a_limit_of_zero_is_refused() {
    let options = Options { files_max: 0, ..Options::default() };
    let error = Place::new().open_with(options).await.unwrap_err();
    assert_eq!(error.to_string(), "the option files_max cannot be 0: it is a limit, choose at least 1");
}
