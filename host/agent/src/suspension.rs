//! What an answer means for a call that waits. Pure: it is told the time.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use toolcell_contract::{Answer, CallContext, FailureCode, Request, Suspension, ToolResult};

use crate::call_record::CallEnding;

/// The reason of a no that the host gives when the run is cancelled.
pub(crate) const CANCELLED: &str = "cancelled";

/// The reason of a no that the host gives when a question lapses.
pub(crate) const EXPIRED: &str = "expired";

/// The reason of a no that the host gives when too many questions are open.
pub(crate) const BUSY: &str = "busy";

/// What a call does next.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Settled {
    /// The tool runs, with this context.
    Run(CallContext),
    /// The tool does not run; this is the result.
    Refused(CallEnding),
}

/// Decides what follows from an answer that arrives at `now`, or whose lapse is looked after elsewhere (`None`). An answer
/// to another question decides nothing: its id is the error.
pub(crate) fn settle(
    call_id: &str,
    suspension: &Suspension,
    answer: Answer,
    now: Option<OffsetDateTime>,
) -> Result<Settled, String> {
    let Suspension { request, guest_id, state } = suspension;
    if answer.id != request.id {
        return Err(answer.id);
    }
    if now.is_some_and(|now| has_lapsed(request, now)) {
        return Ok(Settled::Refused(refused(request, FailureCode::Expired)));
    }
    if !answer.ok {
        let code = match answer.reason.as_deref() {
            Some(EXPIRED) => FailureCode::Expired,
            Some(CANCELLED) => FailureCode::Cancelled,
            Some(BUSY) => FailureCode::Busy,
            _ => FailureCode::Declined,
        };
        return Ok(Settled::Refused(refused(request, code)));
    }
    let answer = Answer { id: guest_id.clone().unwrap_or(answer.id), ..answer };
    Ok(Settled::Run(CallContext::retry(call_id, answer, state.clone())))
}

/// The result of a call whose question was declined, cancelled, or not answered in time.
pub(crate) fn refused(request: &Request, code: FailureCode) -> CallEnding {
    let why = match code {
        // Nobody was asked at all.
        FailureCode::Busy => "not asked, too many questions are open",
        _ => "declined/expired",
    };
    ending(format!("{why}: {}", request.prompt), code)
}

/// The result of a call that asks again although it was answered.
pub(crate) fn unresolved(request: &Request) -> CallEnding {
    ending(format!("unresolved: {}", request.prompt), FailureCode::Unresolved)
}

fn ending(output: String, code: FailureCode) -> CallEnding {
    CallEnding { result: ToolResult::error(output).with_metadata("code", code.as_str()), code: Some(code) }
}

/// When a question lapses. The sandbox has checked the text; one that cannot be read never lapses by itself.
pub(crate) fn expiry(request: &Request) -> Option<OffsetDateTime> {
    OffsetDateTime::parse(request.expires_at.as_deref()?, &Rfc3339).ok()
}

/// Whether a question has lapsed.
pub(crate) fn has_lapsed(request: &Request, now: OffsetDateTime) -> bool {
    expiry(request).is_some_and(|end| end <= now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    const NOW: OffsetDateTime = datetime!(2026-12-01 12:00 UTC);

    fn suspension(guest_id: Option<&str>, expires_at: Option<&str>) -> Suspension {
        let request = Request { expires_at: expires_at.map(Into::into), ..Request::approval("gpu?").with_id("pnd-1") };
        Suspension { request, guest_id: guest_id.map(Into::into), state: Some(vec![7]) }
    }

    fn refusal(output: &str, code: FailureCode) -> Settled {
        let result = ToolResult::error(output).with_metadata("code", code.as_str());
        Settled::Refused(CallEnding { result, code: Some(code) })
    }

    #[test]
    fn a_yes_runs_the_call_again_with_answer_and_state() {
        let settled = settle("c1", &suspension(None, None), Answer::approve("pnd-1"), Some(NOW)).unwrap();
        assert_eq!(settled, Settled::Run(CallContext::retry("c1", Answer::approve("pnd-1"), Some(vec![7]))));
    }

    #[test]
    fn a_tool_that_chose_an_id_gets_its_own_back() {
        let settled = settle("c1", &suspension(Some("mine"), None), Answer::approve("pnd-1"), Some(NOW)).unwrap();
        assert_eq!(settled, Settled::Run(CallContext::retry("c1", Answer::approve("mine"), Some(vec![7]))));
    }

    #[test]
    fn a_no_is_the_result_and_says_which_no() {
        for (reason, code) in [
            ("declined", FailureCode::Declined),
            ("cancelled", FailureCode::Cancelled),
            ("expired", FailureCode::Expired),
            ("not today", FailureCode::Declined),
        ] {
            let settled = settle("c1", &suspension(None, None), Answer::decline("pnd-1", reason), Some(NOW)).unwrap();
            assert_eq!(settled, refusal("declined/expired: gpu?", code), "{reason}");
        }
    }

    #[test]
    fn an_answer_after_the_end_counts_as_none() {
        let yes = || Answer::approve("pnd-1");
        let late = settle("c1", &suspension(None, Some("2026-12-01T12:00:00Z")), yes(), Some(NOW)).unwrap();
        assert_eq!(late, refusal("declined/expired: gpu?", FailureCode::Expired));
        let in_time = settle("c1", &suspension(None, Some("2026-12-01T12:00:01Z")), yes(), Some(NOW)).unwrap();
        assert!(matches!(in_time, Settled::Run(_)));
    }

    #[test]
    fn an_answer_to_another_question_changes_nothing() {
        let error = settle("c1", &suspension(None, None), Answer::approve("pnd-2"), Some(NOW)).unwrap_err();
        assert_eq!(error, "pnd-2");
    }
}
