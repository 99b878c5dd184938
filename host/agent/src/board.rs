//! The questions of a run: which are open, and what was answered. The first answer to a question counts, whoever gives it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use toolcell_contract::Answer;

use crate::answerer::Question;
use crate::decision::{self, BadDecision};
use crate::run::SuspendedRun;
use crate::store::Decision;

/// The questions of a run.
#[derive(Debug, Default)]
pub(crate) struct Board {
    state: Mutex<State>,
    /// There is an answer to act on. One run at a time waits for it.
    arrived: Notify,
    /// There is a question that was not there before.
    posted: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// With the place of the call in its turn, in that order.
    open: Vec<(usize, Question)>,
    /// The decision that counts, by the id of the question.
    answered: HashMap<String, Decision>,
    /// What counts and was not acted on yet.
    fresh: Vec<Decision>,
}

/// Why answers are not taken. None of them is, then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No question has this id.
    Unknown(String),
    /// The question of this id has another answer.
    Conflict(String),
    /// The answer is not what the question of this id asks for.
    Bad(String, BadDecision),
}

/// What answers led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// At least one is the first to its question.
    First,
    /// They were all given before.
    Again,
}

impl Board {
    /// The open questions of a run that waits.
    pub(crate) fn of(run: &SuspendedRun) -> Self {
        let board = Self::default();
        for (place, open) in run.open_with_places() {
            board.post(place, &open.question());
        }
        board
    }

    /// Opens a question of the call at this place. False when it is open already, or answered.
    pub(crate) fn post(&self, place: usize, question: &Question) -> bool {
        let mut state = self.state();
        let id = &question.request.id;
        if state.answered.contains_key(id) || state.open.iter().any(|(_, open)| open.request.id == *id) {
            return false;
        }
        let at = state.open.partition_point(|(other, _)| *other <= place);
        state.open.insert(at, (place, question.clone()));
        self.posted.notify_one();
        true
    }

    /// Takes decisions: all of them, or none.
    pub(crate) fn decide(&self, decisions: Vec<Decision>) -> Result<Taken, Refusal> {
        let mut state = self.state();
        let mut fresh: Vec<Decision> = Vec::new();
        for decision in decisions {
            let id = &decision.answer.id;
            let before = state.answered.get(id).or_else(|| fresh.iter().find(|other| other.answer.id == *id));
            match before {
                Some(before) if before.is_same(&decision) => {}
                Some(_) => return Err(Refusal::Conflict(decision.answer.id)),
                None => match state.open.iter().find(|(_, open)| open.request.id == *id) {
                    Some((_, open)) => match decision::check_data(&open.request, &decision.answer) {
                        Ok(()) => fresh.push(decision),
                        Err(problem) => return Err(Refusal::Bad(decision.answer.id, problem)),
                    },
                    None => return Err(Refusal::Unknown(decision.answer.id)),
                },
            }
        }
        if fresh.is_empty() {
            return Ok(Taken::Again);
        }
        state.open.retain(|(_, open)| !fresh.iter().any(|decision| decision.answer.id == open.request.id));
        state.answered.extend(fresh.iter().map(|decision| (decision.answer.id.clone(), decision.clone())));
        state.fresh.extend(fresh);
        self.arrived.notify_one();
        Ok(Taken::First)
    }

    /// [`Board::decide`] with plain answers.
    pub(crate) fn answer(&self, answers: Vec<Answer>) -> Result<Taken, Refusal> {
        self.decide(answers.into_iter().map(Decision::from).collect())
    }

    /// Decisions to act on, in the order in which they came. Each is given once.
    pub(crate) fn take(&self) -> Vec<Decision> {
        std::mem::take(&mut self.state().fresh)
    }

    /// Whether anything was answered.
    pub(crate) fn is_used(&self) -> bool {
        !self.state().answered.is_empty()
    }

    /// Whether this question was answered.
    pub(crate) fn has_answered(&self, id: &str) -> bool {
        self.state().answered.contains_key(id)
    }

    /// Whether there are answers to act on.
    pub(crate) fn has_fresh(&self) -> bool {
        !self.state().fresh.is_empty()
    }

    /// Waits until there may be answers to act on.
    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// Closes the questions of a run that is lost.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.open.clear();
        state.fresh.clear();
    }

    /// Waits until there may be a new question.
    pub(crate) async fn posted(&self) {
        self.posted.notified().await;
    }

    /// The open questions, in call order.
    pub(crate) fn open(&self) -> Vec<Question> {
        self.state().open.iter().map(|(_, question)| question.clone()).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answerer::Asker;
    use toolcell_contract::Request;

    fn question(id: &str) -> Question {
        Question {
            call_id: format!("call of {id}"),
            tool: "gpu".into(),
            arguments: serde_json::json!({}),
            digest: None,
            asker: Asker::Tool,
            request: Request::approval("gpu?").with_id(id),
        }
    }

    fn board() -> Board {
        let board = Board::default();
        for (place, id) in [(2, "c"), (0, "a"), (1, "b")] {
            assert!(board.post(place, &question(id)));
        }
        board
    }

    fn open(board: &Board) -> Vec<String> {
        board.open().into_iter().map(|question| question.request.id).collect()
    }

    #[test]
    fn questions_stand_in_call_order_whenever_they_were_asked() {
        let board = board();
        assert_eq!(open(&board), ["a", "b", "c"]);
        assert!(!board.post(1, &question("b")), "it is open already");
        assert_eq!(open(&board), ["a", "b", "c"]);
    }

    #[test]
    fn the_first_answer_counts_the_same_again_changes_nothing_and_another_is_a_conflict() {
        let board = board();
        assert_eq!(board.answer(vec![Answer::approve("b")]), Ok(Taken::First));
        assert_eq!(open(&board), ["a", "c"]);
        assert_eq!(board.answer(vec![Answer::approve("b")]), Ok(Taken::Again));
        assert_eq!(board.answer(vec![Answer::decline("b", "no")]), Err(Refusal::Conflict("b".into())));
        let other = Answer::approve("b").with_data([("n".to_owned(), 1.into())].into_iter().collect());
        assert_eq!(board.answer(vec![other]), Err(Refusal::Conflict("b".into())));
        assert_eq!(board.take(), [Decision::from(Answer::approve("b"))], "it is acted on once");
        assert_eq!(board.answer(vec![Answer::approve("b")]), Ok(Taken::Again));
        assert!(!board.has_fresh());
    }

    #[test]
    fn a_no_is_the_same_no_in_other_words() {
        let board = board();
        board.answer(vec![Answer::decline("a", "declined")]).unwrap();
        assert_eq!(board.answer(vec![Answer::decline("a", "not today")]), Ok(Taken::Again));
    }

    #[test]
    fn one_answer_that_is_refused_holds_back_all_that_came_with_it() {
        let board = board();
        let stray = vec![Answer::approve("a"), Answer::approve("x")];
        assert_eq!(board.answer(stray), Err(Refusal::Unknown("x".into())));
        let both = vec![Answer::approve("a"), Answer::decline("a", "declined")];
        assert_eq!(board.answer(both), Err(Refusal::Conflict("a".into())));
        assert_eq!(open(&board), ["a", "b", "c"]);
        assert!(!board.has_fresh());
        assert_eq!(board.answer(vec![Answer::approve("a"), Answer::approve("a")]), Ok(Taken::First));
        assert_eq!(board.take().len(), 1);
    }
}
