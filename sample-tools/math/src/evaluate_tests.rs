//! What expressions evaluate to, and how the wrong ones are refused.

use super::*;

fn text(expression: &str) -> String {
    match evaluate(expression) {
        Ok(value) => number::format(value),
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn operators_bind_as_in_a_textbook() {
    for (expression, value) in [
        ("2 + 3 * 4", "14"),
        ("(2 + 3) * 4", "20"),
        ("10 - 2 - 3", "5"),
        ("100 / 10 / 2", "5"),
        ("2 ^ 3 ^ 2", "512"),
        ("-2 ^ 2", "-4"),
        ("(-2) ^ 2", "4"),
        ("2 ^ -1", "0.5"),
        ("--3 - +2", "1"),
        ("17 % 5", "2"),
        ("7.5 % 2", "1.5"),
        ("\t1\n+ 1 ", "2"),
        ("1/4", "0.25"),
        ("0.1 + 0.2", "0.3"),
    ] {
        assert_eq!(text(expression), value, "{expression}");
    }
}

#[test]
fn functions_and_constants_are_known() {
    for (expression, value) in [
        ("sqrt(2)", "1.4142135623731"),
        ("sqrt(16) + abs(-4)", "8"),
        ("sin(pi / 2)", "1"),
        ("cos(0)", "1"),
        ("tan(0)", "0"),
        ("ln(e)", "1"),
        ("log(1000)", "3"),
        ("exp(0)", "1"),
        ("min(3, 1, 2)", "1"),
        ("max(3)", "3"),
        ("round(2.5)", "3"),
        ("floor(-2.5)", "-3"),
        ("ceil(2.1)", "3"),
        ("2 * e", "5.43656365691809"),
        ("2e3", "2000"),
        ("max(1, sqrt(2)) ^ 2", "2"),
    ] {
        assert_eq!(text(expression), value, "{expression}");
    }
}

#[test]
fn a_value_that_does_not_exist_is_an_error_that_says_why() {
    for (expression, error) in [
        ("sqrt(-1)", "sqrt of a negative number (-1): the result is not real (at position 1)"),
        ("1 + sqrt(2 - 6)", "sqrt of a negative number (-4): the result is not real (at position 5)"),
        ("ln(0)", "ln of a number that is not positive (0): the result is not real (at position 1)"),
        ("log(-5)", "log of a number that is not positive (-5): the result is not real (at position 1)"),
        ("1 / 0", "division by zero (1 / 0) (at position 3)"),
        ("5 % (3 - 3)", "division by zero (5 % 0) (at position 3)"),
        ("0 ^ -1", "division by zero (0 ^ -1) (at position 3)"),
        ("(-8) ^ 0.5", "a fractional power of a negative number (-8 ^ 0.5): the result is not real (at position 6)"),
        ("10 ^ 400", "the result exceeds the largest number, about 1.8e308 (at position 4)"),
        ("exp(1000)", "the result exceeds the largest number, about 1.8e308 (at position 1)"),
    ] {
        assert_eq!(text(expression), format!("error: {error}"), "{expression}");
    }
}

#[test]
fn a_text_that_is_no_expression_is_an_error_with_its_place() {
    for (expression, error) in [
        ("", "the expression is empty: give one such as 2 * (3 + 4)"),
        (" \n", "the expression is empty: give one such as 2 * (3 + 4)"),
        ("2 +", "expected a number, a name or (, found the end (at position 4)"),
        ("2 3", "expected an operator or the end, found \"3\" (at position 3)"),
        ("(2 + 3", "expected an operator or ), found the end (at position 7)"),
        ("2 + * 3", "expected a number, a name or (, found \"*\" (at position 5)"),
        ("sqrt 4", "expected ( after a function, found \"4\" (at position 6)"),
        ("sqrt()", "sqrt takes one value, not 0 (at position 1)"),
        ("sqrt(1, 2)", "sqrt takes one value, not 2 (at position 1)"),
        ("min()", "min takes at least one value, not 0 (at position 1)"),
        ("1.2.3", "\"1.2.3\" is not a number (at position 1)"),
        ("1 + é", "expected a number, a name or (, found \"é\" (at position 5)"),
        ("é + foo", "expected a number, a name or (, found \"é\" (at position 1)"),
        (
            "1 + foo(2)",
            "unknown name \"foo\": use pi, e, sqrt, sin, cos, tan, ln, log, exp, abs, round, floor, ceil, min, max (at position 5)",
        ),
    ] {
        assert_eq!(text(expression), format!("error: {error}"), "{expression}");
    }
}

#[test]
fn the_list_of_names_is_complete() {
    let constants = CONSTANTS.iter().map(|(name, _)| *name);
    let names: Vec<_> = constants.chain(FUNCTIONS.iter().map(|function| function.name)).collect();
    assert_eq!(names.join(", "), KNOWN_NAMES);
}

#[test]
fn the_deepest_expression_has_a_value_and_a_deeper_one_is_refused() {
    let nested = |levels: usize| format!("{}1{}", "(".repeat(levels), ")".repeat(levels));
    assert_eq!(evaluate(&nested(DEPTH_MAX)), Ok(1.0));
    assert_eq!(evaluate(&nested(DEPTH_MAX + 1)), Err(Error { problem: Problem::TooDeep, position: DEPTH_MAX + 2 }));
    assert_eq!(evaluate(&"1^".repeat(100_000)), Err(Error { problem: Problem::TooDeep, position: 2 * DEPTH_MAX + 3 }));
    assert_eq!(evaluate(&format!("{}1", "-".repeat(100_000))), Ok(1.0));
}

#[test]
fn a_long_expression_is_evaluated_in_one_pass() {
    let ones = "1 + ".repeat(200_000) + "1";
    assert_eq!(evaluate(&ones), Ok(200_001.0));
}
