//! The condition and update expressions of the ledger, parsed and evaluated as by DynamoDB.
//!
//! An unknown expression panics, so that no test passes without evaluating it.

use std::{cmp::Ordering, collections::BTreeSet};

use ledger::table::{Item, Value, Write, WriteKind};

#[derive(Debug)]
pub(super) enum Condition {
    Exists(&'static str),
    Missing(&'static str),
    Compare(Operand, Operator, Operand),
    And(Vec<Condition>),
    Or(Vec<Condition>),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Operand {
    /// An attribute, by name.
    Attribute(&'static str),
    /// A value that the request provides, by name.
    Given(&'static str),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Operator {
    Equal,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

#[derive(Debug, Default)]
pub(super) struct Update {
    set: Vec<(&'static str, Source)>,
    remove: Vec<&'static str>,
}

#[derive(Clone, Copy, Debug)]
enum Source {
    Operand(Operand),
    IfMissing(&'static str, Operand),
}

impl Condition {
    pub(super) fn parse(text: &'static str) -> Self {
        let mut tokens = Tokens::new(text);
        let condition = tokens.any();
        assert!(
            tokens.peek().is_none(),
            "{text:?} has text after the condition"
        );
        condition
    }

    pub(super) fn holds(&self, item: Option<&Item>, write: &Write) -> bool {
        match self {
            Self::Exists(name) => item.is_some_and(|item| item.contains_key(*name)),
            Self::Missing(name) => item.is_none_or(|item| !item.contains_key(*name)),
            Self::Compare(left, operator, right) => {
                let sides = left.value(item, write).zip(right.value(item, write));
                // A comparison with a missing attribute is false.
                sides.is_some_and(|(left, right)| operator.holds(left, right))
            }
            Self::And(all) => all.iter().all(|condition| condition.holds(item, write)),
            Self::Or(any) => any.iter().any(|condition| condition.holds(item, write)),
        }
    }

    fn operands(&self, found: &mut Vec<Operand>) {
        match self {
            Self::Exists(_) | Self::Missing(_) => {}
            Self::Compare(left, _, right) => found.extend([*left, *right]),
            Self::And(all) | Self::Or(all) => {
                all.iter().for_each(|condition| condition.operands(found));
            }
        }
    }
}

impl Operand {
    fn parse(token: &'static str) -> Self {
        match (token.strip_prefix('#'), token.strip_prefix(':')) {
            (Some(name), _) => Self::Attribute(name),
            (None, Some(name)) => Self::Given(name),
            (None, None) => panic!("{token:?} is no operand"),
        }
    }

    fn value<'v>(self, item: Option<&'v Item>, write: &'v Write) -> Option<&'v Value> {
        match self {
            Self::Attribute(name) => item?.get(name),
            Self::Given(name) => write.values.get(name),
        }
    }
}

impl Operator {
    fn holds(self, left: &Value, right: &Value) -> bool {
        let order = match (left, right) {
            (Value::S(left), Value::S(right)) => Some(left.as_bytes().cmp(right.as_bytes())),
            (Value::N(left), Value::N(right)) => Some(number(left).cmp(&number(right))),
            (Value::B(left), Value::B(right)) => Some(left.cmp(right)),
            // Values of other types are only compared for equality; values of different types are never equal.
            (left, right) => (left == right).then_some(Ordering::Equal),
        };
        order.is_some_and(|order| match self {
            Self::Equal => order.is_eq(),
            Self::Less => order.is_lt(),
            Self::AtMost => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::AtLeast => order.is_ge(),
        })
    }
}

fn number(digits: &str) -> i128 {
    digits
        .parse()
        .unwrap_or_else(|_| panic!("{digits:?} is no whole number"))
}

impl Update {
    pub(super) fn parse(text: &'static str) -> Self {
        let mut tokens = Tokens::new(text);
        let mut update = Self::default();
        while let Some(clause) = tokens.next() {
            match clause {
                "SET" => {
                    update.set.push(tokens.assignment());
                    while tokens.skip_if(",") {
                        update.set.push(tokens.assignment());
                    }
                }
                "REMOVE" => {
                    update.remove.push(tokens.attribute());
                    while tokens.skip_if(",") {
                        update.remove.push(tokens.attribute());
                    }
                }
                other => panic!("{text:?} has a clause {other:?}"),
            }
        }
        update
    }

    /// Returns the item after the update, or DynamoDB's error.
    pub(super) fn apply(&self, before: &Item, write: &Write) -> Result<Item, String> {
        let mut after = before.clone();
        for (name, source) in &self.set {
            let operand = match source {
                Source::Operand(operand) => *operand,
                Source::IfMissing(other, operand) => match before.contains_key(*other) {
                    true => Operand::Attribute(other),
                    false => *operand,
                },
            };
            let value = operand.value(Some(before), write);
            let value = value.ok_or_else(|| {
                "The provided expression refers to an attribute that does not exist in the item"
                    .to_owned()
            })?;
            after.insert((*name).to_owned(), value.clone());
        }
        for name in &self.remove {
            after.remove(*name);
        }
        Ok(after)
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        let set = self.set.iter().map(|(name, _)| *name);
        set.chain(self.remove.iter().copied())
    }

    fn operands(&self, found: &mut Vec<Operand>) {
        found.extend(self.set.iter().map(|(_, source)| match source {
            Source::Operand(operand) | Source::IfMissing(_, operand) => *operand,
        }));
    }
}

/// Checks a write's expressions as DynamoDB does, independent of the item; returns its error.
pub(super) fn validate(
    write: &Write,
    condition: Option<&Condition>,
    update: Option<&Update>,
) -> Result<(), String> {
    let mut operands = Vec::new();
    if let Some(condition) = condition {
        condition.operands(&mut operands);
    }
    if let Some(update) = update {
        update.operands(&mut operands);
        let names: Vec<_> = update.names().collect();
        if names.iter().any(|name| *name == "pk" || *name == "sk") {
            return Err(
                "Cannot update attribute pk or sk. This attribute is part of the key".into(),
            );
        }
        let distinct: BTreeSet<_> = names.iter().collect();
        if distinct.len() < names.len() {
            return Err("Two document paths overlap with each other".into());
        }
    }
    let used = |name: &str| {
        let mut operands = operands.iter();
        operands.any(|operand| matches!(operand, Operand::Given(given) if *given == name))
    };
    if let Some(unused) = write.values.keys().find(|name| !used(name)) {
        return Err(format!(
            "Value provided in ExpressionAttributeValues unused in expressions: keys: {{:{unused}}}"
        ));
    }
    for operand in &operands {
        if let Operand::Given(name) = operand
            && !write.values.contains_key(name)
        {
            return Err(format!(
                "An expression attribute value used in expression is not defined; attribute value: :{name}"
            ));
        }
    }
    if matches!(write.kind, WriteKind::Check) && condition.is_none() {
        return Err("The expression can not be empty".into());
    }
    Ok(())
}

/// Tokens of an expression; brackets, commas and operators are separate tokens.
struct Tokens {
    text: &'static str,
    left: &'static str,
}

impl Tokens {
    fn new(text: &'static str) -> Self {
        Self { text, left: text }
    }

    fn peek(&self) -> Option<&'static str> {
        let left = self.left.trim_start();
        let mut letters = left.char_indices();
        let (_, first) = letters.next()?;
        let is_sign = |letter: char| matches!(letter, '<' | '>' | '=');
        let end = if matches!(first, '(' | ')' | ',') {
            1
        } else if is_sign(first) {
            letters
                .find(|(_, letter)| !is_sign(*letter))
                .map_or(left.len(), |(at, _)| at)
        } else {
            let ends = |letter: char| letter.is_whitespace() || "(),<>=".contains(letter);
            letters
                .find(|(_, letter)| ends(*letter))
                .map_or(left.len(), |(at, _)| at)
        };
        left.get(..end)
    }

    fn next(&mut self) -> Option<&'static str> {
        let token = self.peek()?;
        self.left = self
            .left
            .trim_start()
            .get(token.len()..)
            .unwrap_or_default();
        Some(token)
    }

    fn skip_if(&mut self, token: &str) -> bool {
        let is_next = self.peek() == Some(token);
        if is_next {
            self.next();
        }
        is_next
    }

    fn expect(&mut self, token: &str) {
        let found = self.next();
        assert_eq!(found, Some(token), "in {:?}", self.text);
    }

    fn token(&mut self) -> &'static str {
        let text = self.text;
        self.next().unwrap_or_else(|| panic!("{text:?} ends early"))
    }

    fn attribute(&mut self) -> &'static str {
        match Operand::parse(self.token()) {
            Operand::Attribute(name) => name,
            Operand::Given(name) => panic!(":{name} is no attribute in {:?}", self.text),
        }
    }

    fn any(&mut self) -> Condition {
        let mut any = vec![self.all()];
        while self.skip_if("OR") {
            any.push(self.all());
        }
        if any.len() == 1 {
            any.remove(0)
        } else {
            Condition::Or(any)
        }
    }

    fn all(&mut self) -> Condition {
        let mut all = vec![self.one()];
        while self.skip_if("AND") {
            all.push(self.one());
        }
        if all.len() == 1 {
            all.remove(0)
        } else {
            Condition::And(all)
        }
    }

    fn one(&mut self) -> Condition {
        match self.token() {
            "(" => {
                let condition = self.any();
                self.expect(")");
                condition
            }
            "attribute_exists" => Condition::Exists(self.argument()),
            "attribute_not_exists" => Condition::Missing(self.argument()),
            token => {
                let left = Operand::parse(token);
                let operator = match self.token() {
                    "=" => Operator::Equal,
                    "<" => Operator::Less,
                    "<=" => Operator::AtMost,
                    ">" => Operator::Greater,
                    ">=" => Operator::AtLeast,
                    other => panic!("{other:?} compares nothing in {:?}", self.text),
                };
                Condition::Compare(left, operator, Operand::parse(self.token()))
            }
        }
    }

    fn argument(&mut self) -> &'static str {
        self.expect("(");
        let name = self.attribute();
        self.expect(")");
        name
    }

    fn assignment(&mut self) -> (&'static str, Source) {
        let name = self.attribute();
        self.expect("=");
        let source = match self.token() {
            "if_not_exists" => {
                self.expect("(");
                let other = self.attribute();
                self.expect(",");
                let operand = Operand::parse(self.token());
                self.expect(")");
                Source::IfMissing(other, operand)
            }
            token => Source::Operand(Operand::parse(token)),
        };
        (name, source)
    }
}
