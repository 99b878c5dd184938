//! A tool that buys something, once a person has approved it.

mod order;

use order::Order;
use toolcell_guest::{Context, ToolResult, tool};

/// Buys an item for the user. A person is asked before anything is ordered.
#[tool(destructive, idempotent, title = "Purchase")]
fn purchase(
    /// What to buy, for example `desk lamp`.
    item: String,
    /// How many pieces.
    #[default(1)]
    quantity: u32,
    /// The price of one piece in EUR.
    price: f64,
    context: &Context,
) -> Result<ToolResult, order::Error> {
    let order = Order::new(&item, quantity, price)?;
    match context.answer() {
        None => Ok(context.suspend(order.approval(), order.quote())),
        Some(answer) if !answer.ok => Ok(ToolResult::error(order.declined(answer.reason.as_deref()))),
        Some(_) => order.place(context),
    }
}

toolcell_guest::export!(purchase);

#[cfg(test)]
mod tests;
