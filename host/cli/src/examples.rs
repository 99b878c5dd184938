//! What the help of each command shows at its end: a few lines to copy.

/// For `toolcell --help`.
pub(crate) const TOOLCELL: &str = "\
Begin with:
    toolcell tools
    toolcell call math --args '{\"expression\": \"6 * 7\"}'
    toolcell run \"What is six times seven?\" --model gpt-…

Without any key: toolcell run \"Go.\" --script FILE plays a conversation.";

/// For `toolcell tools`.
pub(crate) const TOOLS: &str = "\
Examples:
    toolcell tools
    toolcell tools --tools ./tools --json";

/// For `toolcell check`.
pub(crate) const CHECK: &str = "\
Examples:
    toolcell check
    toolcell check --schema";

/// For `toolcell grant`.
pub(crate) const GRANT: &str = "\
Examples:
    toolcell grant weather --http https://api.example.org --method GET --path /v1/
    toolcell grant text-search --mount /srv/notes:/notes
    toolcell grant weather --env LANGUAGE=de --key-value --yes";

/// For `toolcell call`.
pub(crate) const CALL: &str = "\
Examples:
    toolcell call math --args '{\"expression\": \"6 * 7\"}'
    toolcell call text-search --args-file arguments.json --json
    toolcell call chart --args '{\"values\": [1, 3, 2]}' --save-parts out";

/// For `toolcell run`.
pub(crate) const RUN: &str = "\
Examples:
    toolcell run \"What is six times seven?\" --model gpt-…
    toolcell run \"What does it say?\" --attach chart.png --provider anthropic --model claude-…
    toolcell run \"Buy lamps.\" --store runs.db --ask never
    toolcell run \"Go.\" --script conversation.json";

/// For `toolcell pending`.
pub(crate) const PENDING: &str = "\
Examples:
    toolcell pending --store runs.db
    toolcell pending pnd-… --store runs.db";

/// For `toolcell answer`.
pub(crate) const ANSWER: &str = "\
Examples:
    toolcell answer pnd-… --approve --store runs.db
    toolcell answer pnd-… --decline --reason 'too dear' --store runs.db
    toolcell answer pnd-… --data '{\"note\": \"by Friday\"}' --store runs.db
    toolcell answer pnd-… --approve --also run --store runs.db";

/// For `toolcell grants`.
pub(crate) const GRANTS: &str = "\
Examples:
    toolcell grants --store runs.db
    toolcell grants --revoke grt-… --store runs.db";

/// For `toolcell resume`.
pub(crate) const RESUME: &str = "\
Example:
    toolcell resume run-… --store runs.db --model gpt-…";

/// For `toolcell runs`.
pub(crate) const RUNS: &str = "\
Examples:
    toolcell runs --store runs.db
    toolcell runs show run-… --store runs.db
    toolcell runs cancel run-… --store runs.db";

/// For `toolcell worker`.
pub(crate) const WORKER: &str = "\
Examples:
    toolcell worker --store runs.db --model gpt-…
    toolcell worker --store postgres://user@host/name --runs-at-once 64 --json --model gpt-…

The first Ctrl-C or SIGTERM lets runs go on for up to 10 seconds and takes no new ones; the second gives them back at \
once. What changes in the directory of tools and in the policy is used without a restart.";

/// For `toolcell tenant`.
pub(crate) const TENANT: &str = "\
Examples:
    toolcell tenant --store runs.db
    toolcell tenant set --open-max 100 --retention-days 7 --store runs.db
    toolcell tenant set --webhook https://example.org/hook --store runs.db
    toolcell tenant delete acme --tenant acme --store runs.db

A webhook is signed as Standard Webhooks says (https://www.standardwebhooks.com) with the key in TOOLCELL_WEBHOOK_SECRET: \
whsec_ and the base64 of 24 to 64 random bytes, which the receiver has too. To make one:
    export TOOLCELL_WEBHOOK_SECRET=\"whsec_$(openssl rand -base64 32)\"";

/// For `toolcell audit`.
pub(crate) const AUDIT: &str = "\
Examples:
    toolcell audit --store runs.db
    toolcell audit --after 100 --json --store runs.db
    toolcell audit --verify --store runs.db

Each line: its number, when, what happened, and the particulars: ids, digests and codes, never what was said. What may \
happen: question.asked, question.answered, question.refused (an answer that came too late), question.expired, \
question.cancelled, call.executing, call.finished, grant.given, grant.used, grant.revoked, run.cancelled, run.stalled (workers have taken it in vain).";

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use crate::args::Cli;

    /// The words of a line, with quotes as a shell has them.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut quote) = (vec![String::new()], None);
        for c in line.chars() {
            match quote {
                None if c == '\'' || c == '"' => quote = Some(c),
                Some(open) if c == open => quote = None,
                None if c == ' ' => words.push(String::new()),
                _ => words.last_mut().unwrap().push(c),
            }
        }
        words
    }

    #[test]
    fn every_command_has_an_example_and_each_of_them_can_be_typed() {
        let cli = Cli::command();
        let helps = std::iter::once(&cli).chain(cli.get_subcommands().filter(|command| command.get_name() != "help"));
        for command in helps {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples: Vec<_> = help.lines().filter_map(|line| line.strip_prefix("    toolcell ")).collect();
            assert!(!examples.is_empty(), "{} has no example", command.get_name());
            for example in examples {
                let typed = words(&format!("toolcell {example}"));
                if let Err(error) = Cli::try_parse_from(&typed) {
                    panic!("{example}: {error}");
                }
            }
        }
    }
}
