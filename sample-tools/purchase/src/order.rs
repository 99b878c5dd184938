//! An order: what it costs, the question whether to place it, and its confirmation.

use std::fmt;

use toolcell_guest::serde_json::{Value, json};
use toolcell_guest::{Context, Request, ToolResult};

/// Characters of an item's name.
const ITEM_CHARS_MAX: usize = 200;
/// Pieces of one order.
const QUANTITY_MAX: u32 = 1_000;
/// Euros for one piece.
const PRICE_MAX: u32 = 100_000;
/// Characters of a note or a purchase order number.
const NOTE_CHARS_MAX: usize = 500;

/// Something to buy, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Order {
    item: String,
    quantity: u32,
    price: Cents,
}

/// An amount of money in hundredths of a euro.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cents(u64);

impl fmt::Display for Cents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02} EUR", self.0 / 100, self.0 % 100)
    }
}

/// Why nothing can be ordered; the model reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Error {
    /// The item has no name, or too long a one.
    Item,
    /// The number of pieces is out of range.
    Quantity,
    /// The price is out of range.
    Price,
    /// What was approved is not what the arguments say.
    Changed,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Item => write!(f, "item must have 1 to {ITEM_CHARS_MAX} characters"),
            Self::Quantity => write!(f, "quantity must be 1 to {QUANTITY_MAX}: split a larger order"),
            Self::Price => write!(f, "price must be from 0.01 to {PRICE_MAX} EUR for one piece"),
            Self::Changed => f.write_str("nothing was ordered: the approval is for another order, ask again"),
        }
    }
}

impl Order {
    /// Checks what the model asks for. Prices are rounded to the cent before anybody sees them.
    pub(crate) fn new(item: &str, quantity: u32, price: f64) -> Result<Self, Error> {
        let item = item.trim().to_owned();
        if item.is_empty() || item.chars().count() > ITEM_CHARS_MAX {
            return Err(Error::Item);
        }
        if !(1..=QUANTITY_MAX).contains(&quantity) {
            return Err(Error::Quantity);
        }
        if !(0.01..=f64::from(PRICE_MAX)).contains(&price) {
            return Err(Error::Price);
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked above")]
        let price = Cents((price * 100.0).round() as u64);
        Ok(Self { item, quantity, price })
    }

    /// The question for the person who pays, with the order as data and two things that may be added.
    pub(crate) fn approval(&self) -> Request {
        let data = json!({
            "item": self.item,
            "quantity": self.quantity,
            "price": self.price.to_string(),
            "total": self.total().to_string(),
            "schema": {
                "type": "object",
                "properties": {
                    "note": {"type": "string", "description": "A note for the seller"},
                    "purchase_order": {"type": "string", "description": "Your purchase order number"},
                },
            },
        });
        let data = match data {
            Value::Object(data) => Some(data),
            _ => None,
        };
        Request { data, ..Request::approval(format!("Buy {self}?")) }
    }

    /// What is approved, as the state of the suspended call.
    pub(crate) fn quote(&self) -> String {
        format!("{}|{}|{}", self.quantity, self.price.0, self.item)
    }

    /// Confirms the order. Its number comes from the call's id, so that a repeated call is the same order.
    pub(crate) fn place(&self, context: &Context) -> Result<ToolResult, Error> {
        if context.state() != Some(self.quote().as_bytes()) {
            return Err(Error::Changed);
        }
        let number = order_number(context.call_id());
        let added = |key| context.answer_text(key).map(str::trim).filter(|text| !text.is_empty()).map(shortened);
        let (note, purchase_order) = (added("note"), added("purchase_order"));
        let mut output = format!("Ordered {self}. The order number is {number}.");
        let mut result = ToolResult::ok("")
            .with_metadata("order", number)
            .with_metadata("item", self.item.as_str())
            .with_metadata("quantity", self.quantity)
            .with_metadata("total", self.total().to_string());
        if let Some(purchase_order) = purchase_order {
            output.push_str(&format!(" Purchase order: {purchase_order}."));
            result = result.with_metadata("purchaseOrder", purchase_order);
        }
        if let Some(note) = note {
            output.push_str(&format!(" Note to the seller: {note}"));
            result = result.with_metadata("note", note);
        }
        Ok(ToolResult { output, ..result })
    }

    /// What the model hears when the person said no.
    pub(crate) fn declined(&self, reason: Option<&str>) -> String {
        format!("{}: {self} was not bought", reason.unwrap_or("declined"))
    }

    fn total(&self) -> Cents {
        Cents(self.price.0 * u64::from(self.quantity))
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {} for {}", self.quantity, self.item, self.total())
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(NOTE_CHARS_MAX).collect()
}

/// 64 bits of FNV-1a: short, and the same for the same call on every machine.
fn order_number(call_id: &str) -> String {
    let hash = call_id
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    format!("ORD-{hash:016X}")
}
