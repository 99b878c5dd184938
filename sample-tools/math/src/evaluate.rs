//! Arithmetic expressions: a recursive-descent evaluator over the text itself, which never builds a tree.
//!
//! ```text
//! sum     = product { ("+" | "-") product }
//! product = sign { ("*" | "/" | "%") sign }
//! sign    = { "+" | "-" } power
//! power   = atom [ "^" sign ]
//! atom    = number | constant | function "(" sum { "," sum } ")" | "(" sum ")"
//! ```

use std::f64::consts::{E, PI};

use crate::number;

/// Levels of parentheses, calls and powers; deeper ones are refused before they could exhaust the stack.
const DEPTH_MAX: usize = 64;

/// Characters of an unknown name or character sequence that an error repeats.
const SHOWN_CHARS_MAX: usize = 20;

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Error {
    problem: Problem,
    /// Characters from 1.
    position: usize,
}

#[derive(Debug, Clone, PartialEq)]
enum Problem {
    /// There is nothing to evaluate.
    Empty,
    /// Something else was expected than this character, or than the end.
    Unexpected(Option<char>, &'static str),
    /// Digits that make no number.
    BadNumber(String),
    /// Neither a constant nor a function.
    UnknownName(String),
    /// A function that takes another number of values than the given one.
    WrongCount(&'static str, &'static str, usize),
    /// Too many levels.
    TooDeep,
    /// A function that is not defined for a value, and why.
    OutOfDomain(&'static str, &'static str, f64),
    /// A division whose divisor is zero.
    ByZero(f64, char, f64),
    /// A root of a negative number that is written as a power.
    NotReal(f64, f64),
    /// Beyond the largest number.
    Overflow,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let n = number::format;
        match &self.problem {
            Problem::Empty => return f.write_str("the expression is empty: give one such as 2 * (3 + 4)"),
            Problem::Unexpected(Some(found), expected) => write!(f, "expected {expected}, found \"{found}\"")?,
            Problem::Unexpected(None, expected) => write!(f, "expected {expected}, found the end")?,
            Problem::BadNumber(text) => write!(f, "\"{text}\" is not a number")?,
            Problem::UnknownName(name) => write!(f, "unknown name \"{name}\": use {KNOWN_NAMES}")?,
            Problem::WrongCount(name, takes, given) => write!(f, "{name} takes {takes}, not {given}")?,
            Problem::TooDeep => write!(f, "more than {DEPTH_MAX} levels of parentheses: evaluate parts of it first")?,
            Problem::OutOfDomain(name, of, x) => write!(f, "{name} of {of} ({}): the result is not real", n(*x))?,
            Problem::ByZero(left, operator, right) => {
                write!(f, "division by zero ({} {operator} {})", n(*left), n(*right))?;
            }
            Problem::NotReal(base, exponent) => {
                let (base, exponent) = (n(*base), n(*exponent));
                write!(f, "a fractional power of a negative number ({base} ^ {exponent}): the result is not real")?;
            }
            Problem::Overflow => f.write_str("the result exceeds the largest number, about 1.8e308")?,
        }
        write!(f, " (at position {})", self.position)
    }
}

/// The value of an expression.
pub(crate) fn evaluate(expression: &str) -> Result<f64, Error> {
    let mut parser = Parser { text: expression, at: 0, depth: 0 };
    parser.whole().map_err(|(problem, at)| {
        let before = expression.get(..at).unwrap_or(expression);
        Error { problem, position: before.chars().count() + 1 }
    })
}

/// A value, or a problem and the byte at which it is.
type Step<T> = Result<T, (Problem, usize)>;

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn whole(&mut self) -> Step<f64> {
        if self.peek().is_none() {
            return Err((Problem::Empty, 0));
        }
        let value = self.sum()?;
        match self.peek() {
            None => Ok(value),
            Some(_) => Err(self.unexpected("an operator or the end")),
        }
    }

    fn sum(&mut self) -> Step<f64> {
        let mut value = self.product()?;
        loop {
            let at = self.place();
            value = match self.take_any(['+', '-']) {
                Some('+') => value + self.product()?,
                Some(_) => value - self.product()?,
                None => return Ok(value),
            };
            finite(value, at)?;
        }
    }

    fn product(&mut self) -> Step<f64> {
        let mut value = self.sign()?;
        loop {
            let at = self.place();
            let Some(operator) = self.take_any(['*', '/', '%']) else { return Ok(value) };
            let right = self.sign()?;
            if right == 0.0 && operator != '*' {
                return Err((Problem::ByZero(value, operator, right), at));
            }
            value = match operator {
                '*' => value * right,
                '/' => value / right,
                _ => value % right,
            };
            finite(value, at)?;
        }
    }

    fn sign(&mut self) -> Step<f64> {
        let mut negative = false;
        while let Some(sign) = self.take_any(['+', '-']) {
            negative ^= sign == '-';
        }
        let value = self.power()?;
        Ok(if negative { -value } else { value })
    }

    fn power(&mut self) -> Step<f64> {
        let base = self.atom()?;
        let at = self.place();
        if self.take_any(['^']).is_none() {
            return Ok(base);
        }
        let exponent = self.deeper(Self::sign)?;
        let value = base.powf(exponent);
        if value.is_nan() {
            return Err((Problem::NotReal(base, exponent), at));
        }
        if base == 0.0 && exponent < 0.0 {
            return Err((Problem::ByZero(base, '^', exponent), at));
        }
        finite(value, at)
    }

    fn atom(&mut self) -> Step<f64> {
        match self.peek() {
            Some('(') => {
                self.take_any(['(']);
                let value = self.deeper(Self::sum)?;
                self.close()?;
                Ok(value)
            }
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            Some(c) if c.is_ascii_alphabetic() => self.name(),
            _ => Err(self.unexpected("a number, a name or (")),
        }
    }

    fn number(&mut self) -> Step<f64> {
        let at = self.place();
        let literal = number::literal(self.rest());
        self.at += literal.len();
        number::parse(literal).ok_or_else(|| (Problem::BadNumber(shown(literal)), at))
    }

    fn name(&mut self) -> Step<f64> {
        let at = self.place();
        let rest = self.rest();
        let length = rest.bytes().take_while(u8::is_ascii_alphanumeric).count();
        let name = rest.get(..length).unwrap_or_default();
        self.at += length;
        if let Some((_, value)) = CONSTANTS.iter().find(|(known, _)| *known == name) {
            return Ok(*value);
        }
        let Some(function) = FUNCTIONS.iter().find(|function| function.name == name) else {
            return Err((Problem::UnknownName(shown(name)), at));
        };
        if self.take_any(['(']).is_none() {
            return Err(self.unexpected("( after a function"));
        }
        let values = self.deeper(Self::values)?;
        function.call(&values).map_err(|problem| (problem, at))
    }

    fn values(&mut self) -> Step<Vec<f64>> {
        let mut values = Vec::new();
        if self.take_any([')']).is_some() {
            return Ok(values);
        }
        values.push(self.sum()?);
        while self.take_any([',']).is_some() {
            values.push(self.sum()?);
        }
        self.close()?;
        Ok(values)
    }

    fn close(&mut self) -> Step<()> {
        match self.take_any([')']) {
            Some(_) => Ok(()),
            None => Err(self.unexpected("an operator or )")),
        }
    }

    fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Step<T>) -> Step<T> {
        if self.depth == DEPTH_MAX {
            return Err((Problem::TooDeep, self.place()));
        }
        self.depth += 1;
        let value = inner(self);
        self.depth -= 1;
        value
    }

    fn take_any<const N: usize>(&mut self, wanted: [char; N]) -> Option<char> {
        let found = self.peek().filter(|c| wanted.contains(c))?;
        self.at += found.len_utf8();
        Some(found)
    }

    /// The next character that is no white space.
    fn peek(&mut self) -> Option<char> {
        self.at += self.rest().bytes().take_while(u8::is_ascii_whitespace).count();
        self.rest().chars().next()
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The byte at which the next character stands.
    fn place(&mut self) -> usize {
        self.peek();
        self.at
    }

    fn unexpected(&mut self, expected: &'static str) -> (Problem, usize) {
        (Problem::Unexpected(self.peek(), expected), self.at)
    }
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}

fn finite(value: f64, at: usize) -> Step<f64> {
    if value.is_finite() { Ok(value) } else { Err((Problem::Overflow, at)) }
}

const CONSTANTS: [(&str, f64); 2] = [("pi", PI), ("e", E)];

/// The names of all constants and functions, as an error lists them.
const KNOWN_NAMES: &str = "pi, e, sqrt, sin, cos, tan, ln, log, exp, abs, round, floor, ceil, min, max";

struct Function {
    name: &'static str,
    kind: Kind,
}

enum Kind {
    /// Of one value.
    One(fn(f64) -> f64),
    /// Of one value, which must be in a domain that is said in words.
    Within(fn(f64) -> bool, &'static str, fn(f64) -> f64),
    /// Of one value or more.
    Many(fn(f64, f64) -> f64),
}

const FUNCTIONS: [Function; 13] = [
    Function { name: "sqrt", kind: Kind::Within(|x| x >= 0.0, NOT_NEGATIVE, f64::sqrt) },
    Function { name: "sin", kind: Kind::One(f64::sin) },
    Function { name: "cos", kind: Kind::One(f64::cos) },
    Function { name: "tan", kind: Kind::One(f64::tan) },
    Function { name: "ln", kind: Kind::Within(|x| x > 0.0, POSITIVE, f64::ln) },
    Function { name: "log", kind: Kind::Within(|x| x > 0.0, POSITIVE, f64::log10) },
    Function { name: "exp", kind: Kind::One(f64::exp) },
    Function { name: "abs", kind: Kind::One(f64::abs) },
    Function { name: "round", kind: Kind::One(f64::round) },
    Function { name: "floor", kind: Kind::One(f64::floor) },
    Function { name: "ceil", kind: Kind::One(f64::ceil) },
    Function { name: "min", kind: Kind::Many(f64::min) },
    Function { name: "max", kind: Kind::Many(f64::max) },
];

const NOT_NEGATIVE: &str = "a negative number";
const POSITIVE: &str = "a number that is not positive";

impl Function {
    fn call(&self, values: &[f64]) -> Result<f64, Problem> {
        let wrong = |takes| Err(Problem::WrongCount(self.name, takes, values.len()));
        let value = match (&self.kind, values) {
            (Kind::One(of), [x]) => of(*x),
            (Kind::Within(holds, _, of), [x]) if holds(*x) => of(*x),
            (Kind::Within(_, outside, _), [x]) => return Err(Problem::OutOfDomain(self.name, outside, *x)),
            (Kind::Many(of), [first, rest @ ..]) => rest.iter().fold(*first, |left, right| of(left, *right)),
            (Kind::Many(_), []) => return wrong("at least one value"),
            (Kind::One(_) | Kind::Within(..), _) => return wrong("one value"),
        };
        if value.is_finite() { Ok(value) } else { Err(Problem::Overflow) }
    }
}

#[cfg(test)]
#[path = "evaluate_tests.rs"]
mod tests;
