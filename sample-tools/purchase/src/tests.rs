//! The question, the order after it, and what is refused.

use super::*;
use toolcell_guest::serde_json::json;
use toolcell_guest::{Answer, Object, Request, testing, tool_of};

fn first(context: &Context) -> ToolResult {
    purchase("desk lamp".to_owned(), 3, 40.0, context).unwrap()
}

fn answered(answer: Answer) -> ToolResult {
    let context = testing::first_call();
    let _ = first(&context);
    first(&testing::retry(&context, answer))
}

#[test]
fn a_person_is_asked_before_anything_is_ordered() {
    let request = first(&testing::first_call()).pending_of().unwrap();
    let expected = Request {
        id: request.id.clone(),
        data: Some(Object::from_iter([
            ("item".to_owned(), json!("desk lamp")),
            ("quantity".to_owned(), json!(3)),
            ("price".to_owned(), json!("40.00 EUR")),
            ("total".to_owned(), json!("120.00 EUR")),
            (
                "schema".to_owned(),
                json!({
                    "type": "object",
                    "properties": {
                        "note": {"type": "string", "description": "A note for the seller"},
                        "purchase_order": {"type": "string", "description": "Your purchase order number"},
                    },
                }),
            ),
        ])),
        ..Request::approval("Buy 3 × desk lamp for 120.00 EUR?")
    };
    assert_eq!(request, expected);
}

#[test]
fn an_approved_order_is_confirmed_under_the_number_of_its_call() {
    let expected = ToolResult::ok("Ordered 3 × desk lamp for 120.00 EUR. The order number is ORD-9582B8995D76B867.")
        .with_metadata("order", "ORD-9582B8995D76B867")
        .with_metadata("item", "desk lamp")
        .with_metadata("quantity", 3)
        .with_metadata("total", "120.00 EUR");
    assert_eq!(answered(Answer::approve("x")), expected);
    assert_eq!(answered(Answer::approve("y")), expected);
}

#[test]
fn what_the_person_adds_is_part_of_the_order() {
    let data =
        Object::from_iter([("note".to_owned(), json!(" Ring twice ")), ("purchase_order".to_owned(), json!("4711"))]);
    let result = answered(Answer::approve("x").with_data(data));
    assert_eq!(
        result.output,
        "Ordered 3 × desk lamp for 120.00 EUR. The order number is ORD-9582B8995D76B867. Purchase order: 4711. Note to \
         the seller: Ring twice"
    );
    let metadata = result.metadata.unwrap();
    assert_eq!((&metadata["purchaseOrder"], &metadata["note"]), (&json!("4711"), &json!("Ring twice")));
}

#[test]
fn a_declined_order_is_an_error() {
    assert_eq!(
        answered(Answer::decline("x", "expired")),
        ToolResult::error("expired: 3 × desk lamp for 120.00 EUR was not bought")
    );
}

#[test]
fn an_approval_of_another_order_buys_nothing() {
    let context = testing::first_call();
    let _ = first(&context);
    let retry = testing::retry(&context, Answer::approve("x"));
    let error = purchase("desk lamp".to_owned(), 4, 40.0, &retry);
    assert_eq!(error, Err(order::Error::Changed));
    let no_state = testing::retry(&testing::first_call(), Answer::approve("x"));
    assert_eq!(purchase("desk lamp".to_owned(), 3, 40.0, &no_state), Err(order::Error::Changed));
}

#[test]
fn orders_out_of_range_are_refused() {
    let call = |arguments: toolcell_guest::serde_json::Value| {
        tool_of!(purchase).call(&arguments.to_string(), &testing::first_call()).output
    };
    let buys =
        |item: &str, quantity: u32, price: f64| call(json!({"item": item, "quantity": quantity, "price": price}));
    assert_eq!(
        buys(&"x".repeat(200), 1000, 100_000.0),
        format!("Buy 1000 × {} for 100000000.00 EUR?", "x".repeat(200))
    );
    assert_eq!(buys("pin", 1, 0.01), "Buy 1 × pin for 0.01 EUR?");
    assert_eq!(call(json!({"item": "pin", "price": 0.014_999})), "Buy 1 × pin for 0.01 EUR?");
    for output in [buys(" ", 1, 1.0), buys(&"x".repeat(201), 1, 1.0)] {
        assert_eq!(output, "item must have 1 to 200 characters");
    }
    for output in [buys("pin", 0, 1.0), buys("pin", 1001, 1.0)] {
        assert_eq!(output, "quantity must be 1 to 1000: split a larger order");
    }
    for output in [buys("pin", 1, 0.0), buys("pin", 1, -5.0), buys("pin", 1, 100_000.01)] {
        assert_eq!(output, "price must be from 0.01 to 100000 EUR for one piece");
    }
}
