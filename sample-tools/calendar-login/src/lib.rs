//! A tool that reads a calendar, once the user has signed in.

mod calendar;
mod date;

use date::Date;
use toolcell_guest::{Context, Request, ToolResult, tool};

/// Lists the events of one day in the user's calendar. The user is asked to sign in first.
#[tool(name = "calendar-login", title = "Calendar", read_only, open_world)]
fn calendar_login(
    /// The day, as `YYYY-MM-DD`.
    date: String,
    context: &Context,
) -> Result<ToolResult, String> {
    let date: Date = date.parse()?;
    match context.answer() {
        None => {
            let request = Request::authorization(calendar::sign_in_url(context), "Sign in to the calendar");
            Ok(context.suspend(request, date.to_string()))
        }
        Some(answer) if !answer.ok => Err("not signed in: the calendar cannot be read".to_owned()),
        Some(_) if context.state() != Some(date.to_string().as_bytes()) => {
            Err("the sign-in was for another day: ask again".to_owned())
        }
        Some(_) => Ok(calendar::events(date, context.answer_text("account"))),
    }
}

toolcell_guest::export!(calendar_login);

#[cfg(test)]
mod tests;
