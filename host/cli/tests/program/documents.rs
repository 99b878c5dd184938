//! The commands that the documents show are run, and print what is shown there.

use std::path::Path;

use crate::support::{Place, cache};

#[test]
fn every_command_in_the_documents_prints_what_is_shown() {
    let place = Place::with_samples();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    // What a command writes goes where the tools are, not into the checkout. No other test depends on this directory.
    std::env::set_current_dir(place.dir.path()).unwrap();
    let buy =
        r#"{"turns": [{"calls": [{"tool": "purchase", "arguments": {"item": "lamp", "quantity": 2, "price": 10}}]}]}"#;
    std::fs::write("lamps.json", buy).unwrap();
    let cases = trycmd::TestCases::new();
    cases
        .register_bin("toolcell", Path::new(env!("CARGO_BIN_EXE_toolcell")))
        .env("TOOLCELL_TOOLS", place.tools().to_str().unwrap())
        .env("TOOLCELL_CACHE", cache().to_str().unwrap())
        .case(root.join("README.md"))
        .case(root.join("sample-tools/README.md"))
        .case(root.join("sample-tools/*/README.md"));
}
