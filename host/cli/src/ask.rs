//! Asking the person at the terminal what a tool wants to know.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Map, Value};
use tokio::sync::Mutex;
use toolcell::contract::{Answer, Request, RequestKind};
use toolcell::{Answerer, Nobody, Question};

use crate::args::{Asking, When};
use crate::form::{Dialogue, Filled, Form, required_fields};
use crate::lines::Lines;
use crate::printable::{one_line, printable};
use crate::screen::Screen;

/// Whoever answers, as the options and the terminal say.
pub(crate) fn answerer(asking: &Asking, screen: &Arc<Screen>) -> Arc<dyn Answerer> {
    if asking.yes {
        let screen = Arc::clone(screen);
        return Arc::new(move |question: Question| std::future::ready(yes(question, &screen)));
    }
    let ask = match asking.ask {
        When::Always => true,
        When::Never => false,
        When::Auto => std::io::stdin().is_terminal(),
    };
    if !ask {
        return Arc::new(Nobody);
    }
    let terminal = Arc::new(Terminal { screen: Arc::clone(screen), lines: Lines::default(), turn: Mutex::new(()) });
    Arc::new(move |question: Question| {
        let terminal = Arc::clone(&terminal);
        async move { terminal.ask(question).await }
    })
}

/// The answer of `--yes`. What has to be typed it cannot know, so such a question stays open.
fn yes(question: Question, screen: &Screen) -> Option<Answer> {
    let required = question.request.answer_schema().map(required_fields).unwrap_or_default();
    let prompt = one_line(&question.request.prompt, 200);
    if !required.is_empty() {
        let fields = one_line(&required.join(", "), 200);
        screen.line(&format!("⏸ {} asks: {prompt} — it wants {fields}, which --yes cannot type", question.tool));
        return None;
    }
    screen.line(&format!("⏸ {} asks: {prompt} — yes", question.tool));
    Some(Answer::approve(question.request.id))
}

/// The terminal asks one question at a time.
struct Terminal {
    screen: Arc<Screen>,
    lines: Lines,
    turn: Mutex<()>,
}

impl Terminal {
    /// The person's answer; none when the input ends before there is one.
    async fn ask(&self, question: Question) -> Option<Answer> {
        let _turn = self.turn.lock().await;
        let _asking = self.screen.asking();
        self.lines.flush_terminal();
        let dialogue = Dialogue { screen: &self.screen, lines: &self.lines, asked: Instant::now() };
        self.show(&question);
        let answer = self.answer(&question, &dialogue).await;
        if answer.is_none() {
            self.screen.line("  the input has ended before there was an answer: the question stays open");
        }
        answer
    }

    async fn answer(&self, question: &Question, dialogue: &Dialogue<'_>) -> Option<Answer> {
        let Request { id, kind, .. } = &question.request;
        let form = match question.request.answer_schema().map(Form::new).transpose() {
            Ok(form) => form,
            Err(broken) => {
                self.screen.line(&format!("  the tool does not say what it wants: {}", one_line(&broken, 200)));
                return Some(Answer::decline(id, "declined"));
            }
        };
        let is_form = form.as_ref().is_some_and(Form::has_fields);
        match kind {
            RequestKind::Input | RequestKind::Question if form.is_none() => dialogue.free_text(id).await,
            RequestKind::Input | RequestKind::Question if is_form => dialogue.fill(form.as_ref()?).await.answer(id),
            _ => {
                let ask = if question.request.url.is_some() { "  done? [y/n] " } else { "  approve? [y/n] " };
                if !dialogue.yes_or_no(ask).await? {
                    return Some(Answer::decline(id, "declined"));
                }
                match form {
                    Some(form) => dialogue.fill(&form).await.answer(id),
                    None => Some(Answer::approve(id)),
                }
            }
        }
    }

    /// The tool's words, and below them the host's own record: a person decides on what will really run.
    fn show(&self, question: &Question) {
        let request = &question.request;
        self.screen.line("");
        self.screen.line(&format!("⏸ {} asks for {}", question.tool, one_line(request.kind.as_str(), 40)));
        for line in printable(&request.prompt).lines() {
            self.screen.line(&format!("    {line}"));
        }
        if let Some(url) = &request.url {
            self.screen.line(&format!("    open {}", printable(url)));
        }
        let digest = question.digest.map_or_else(|| "part of the host".to_owned(), |digest| digest.short());
        let arguments = printable(&question.arguments.to_string());
        self.screen.line(&format!("  call      {} {arguments}", question.tool));
        self.screen.line(&format!("  component {digest}"));
    }
}

impl Dialogue<'_> {
    async fn yes_or_no(&self, text: &str) -> Option<bool> {
        loop {
            match self.prompt(text).await?.trim().to_lowercase().as_str() {
                "y" | "yes" => return Some(true),
                "n" | "no" => return Some(false),
                _ => self.screen.line("  type y or n"),
            }
        }
    }

    /// An answer in plain words, which the tool gets as the key `text`.
    async fn free_text(&self, id: &str) -> Option<Answer> {
        let text = self.prompt("  your answer (an empty line declines): ").await?;
        Some(if text.trim().is_empty() {
            Answer::decline(id, "declined")
        } else {
            Answer::approve(id).with_data(Map::from_iter([("text".to_owned(), Value::String(text))]))
        })
    }
}

impl Filled {
    /// The answer; none when the input ended before it was whole, also after a yes: nobody has said that it is all.
    fn answer(self, id: &str) -> Option<Answer> {
        match self {
            Self::Whole(data) => Some(Answer::approve(id).with_data(data)),
            Self::Declined => Some(Answer::decline(id, "declined")),
            Self::Ended => None,
        }
    }
}
