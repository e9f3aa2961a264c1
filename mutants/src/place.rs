//! Finds the place of each mutant and writes the choice there.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    ops::Range,
};

use anyhow::Result;
use syn::{
    Arm, BinOp, Block, Expr, ExprBinary, ExprMatch, ExprStruct, ExprUnary, ImplItemFn, ItemFn,
    ReturnType, Signature, TraitItemFn, Type,
    spanned::Spanned,
    visit::{self, Visit},
};

use crate::{Mutant, text::Text};

/// What the switch is called where it was put.
const ON: &str = "::model::switch::on";

/// The rewritten source, and the mutants that are not in it: those that no compiler takes, and those that have no place.
pub struct All {
    pub rewritten: String,
    pub unviable: BTreeSet<u32>,
    pub apart: BTreeSet<u32>,
}

pub fn all(source: &str, mutants: &[Mutant]) -> Result<All> {
    let mut by_place = BTreeMap::<_, Vec<&Mutant>>::new();
    for mutant in mutants {
        let start = &mutant.span.start;
        let place = (mutant.genre.as_str(), start.line, start.column);
        by_place.entry(place).or_default().push(mutant);
    }
    let mut places = Places {
        text: Text::new(source),
        by_place,
        unviable: BTreeSet::new(),
    };
    places.visit_file(&syn::parse_file(source)?);
    let left = places.by_place.into_values().flatten();
    Ok(All {
        rewritten: places.text.finish(),
        unviable: places.unviable,
        apart: left.map(|mutant| mutant.number).collect(),
    })
}

struct Places<'a> {
    text: Text<'a>,
    by_place: BTreeMap<(&'a str, usize, usize), Vec<&'a Mutant>>,
    unviable: BTreeSet<u32>,
}

impl<'a> Places<'a> {
    /// The mutants of a kind whose span begins where the node does. Each is found once.
    fn at(&mut self, genre: &'static str, node: &impl Spanned) -> Vec<&'a Mutant> {
        self.by_place.remove(&key(genre, node)).unwrap_or_default()
    }

    fn known(&self, genre: &'static str, node: &impl Spanned) -> Vec<u32> {
        let found = self.by_place.get(&key(genre, node));
        found
            .into_iter()
            .flatten()
            .map(|mutant| mutant.number)
            .collect()
    }

    /// An expression that is another one while a mutant is on.
    fn choose(&mut self, range: Range<usize>, others: &[(u32, String)]) {
        let mut before = format!("{}(", opening(others.iter().map(|(number, _)| *number)));
        for (number, other) in others {
            let _ = write!(
                before,
                "if {ON}({number}) {{ /*<{number}*/{other}/*>*/ }} else "
            );
        }
        if !others.is_empty() {
            self.text
                .around(range, before + "{ ", " })/*]*/".to_owned());
        }
    }

    fn function(&mut self, signature: &Signature, block: &Block) {
        let start = block.brace_token.span.open();
        let Some(first) = block.stmts.first() else {
            return;
        };
        let mutants = self.at("FnValue", first);
        if mutants.is_empty() {
            return;
        }
        let opened = self.text.range(&start).end;
        let mut before = opening(mutants.iter().map(|mutant| mutant.number));
        let choice = |before: &mut String, with: &dyn Fn(&str) -> String| {
            for mutant in &mutants {
                let (number, value) = (mutant.number, with(&mutant.replacement));
                let _ = write!(
                    before,
                    "if {ON}({number}) {{ /*<{number}*/{value}/*>*/ }} else "
                );
            }
        };
        // Two values of an opaque type are of one, which a box hides.
        if let ReturnType::Type(_, returned) = &signature.output
            && let Type::ImplTrait(opaque) = &**returned
        {
            let bounds = self.text.of(&opaque.bounds);
            let _ = write!(before, "let one: ::std::boxed::Box<dyn {bounds} + '_> = ");
            choice(&mut before, &|value| {
                format!("::std::boxed::Box::new({value})")
            });
            before += "{ ::std::boxed::Box::new({";
            let closed = self.text.range(&block.brace_token.span.close()).start;
            self.text
                .around(opened..closed, before, "}) }; one/*]*/".to_owned());
        } else {
            choice(&mut before, &|value| format!("return {value};"));
            self.text.begin(opened, before + "{}/*]*/");
        }
    }

    /// Operators that stand side by side without parentheses. Another operator may bind otherwise, so the whole is written again for each.
    fn operators(&mut self, whole: &ExprBinary) {
        let range = self.text.range(whole);
        let mut others = Vec::new();
        self.other_operators(whole, &range, &mut others);
        self.choose(range, &others);
    }

    fn other_operators(
        &mut self,
        node: &ExprBinary,
        whole: &Range<usize>,
        others: &mut Vec<(u32, String)>,
    ) {
        for mutant in self.at("BinaryOperator", &node.op) {
            let operator = self.text.range(&node.op);
            let other = self.text.with(whole.clone(), operator, &mutant.replacement);
            others.push((mutant.number, other));
        }
        for side in [&node.left, &node.right] {
            if let Expr::Binary(inner) = &**side {
                self.other_operators(inner, whole, others);
            }
        }
    }

    /// What operators stand between.
    fn operands(&mut self, node: &ExprBinary) {
        for side in [&node.left, &node.right] {
            match &**side {
                Expr::Binary(inner) => self.operands(inner),
                other => self.visit_expr(other),
            }
        }
    }

    /// A chain that binds names takes no other operator, whatever is asked for, but its members may.
    fn chain(&mut self, node: &ExprBinary) {
        let refused = self.at("BinaryOperator", &node.op);
        let refused = refused.iter().map(|mutant| mutant.number);
        self.unviable.extend(refused);
        for side in [&node.left, &node.right] {
            match &**side {
                Expr::Binary(inner) if matches!(inner.op, BinOp::And(_)) => self.chain(inner),
                other => self.visit_expr(other),
            }
        }
    }
}

impl<'ast> Visit<'ast> for Places<'_> {
    fn visit_item_fn(&mut self, node: &'ast ItemFn) {
        self.function(&node.sig, &node.block);
        visit::visit_item_fn(self, node);
    }

    fn visit_impl_item_fn(&mut self, node: &'ast ImplItemFn) {
        self.function(&node.sig, &node.block);
        visit::visit_impl_item_fn(self, node);
    }

    fn visit_trait_item_fn(&mut self, node: &'ast TraitItemFn) {
        if let Some(block) = &node.default {
            self.function(&node.sig, block);
        }
        visit::visit_trait_item_fn(self, node);
    }

    fn visit_expr_binary(&mut self, node: &'ast ExprBinary) {
        if binds(node) {
            self.chain(node);
        } else {
            self.operators(node);
            self.operands(node);
        }
    }

    fn visit_expr_unary(&mut self, node: &'ast ExprUnary) {
        let others = self.at("UnaryOperator", &node.op);
        let operand = self.text.of(&node.expr);
        let others: Vec<_> = others
            .iter()
            .map(|mutant| (mutant.number, operand.to_owned()))
            .collect();
        let range = self.text.range(node);
        self.choose(range, &others);
        visit::visit_expr_unary(self, node);
    }

    /// An arm that may be gone counts for nothing where the compiler asks whether all cases are there.
    fn visit_expr_match(&mut self, node: &'ast ExprMatch) {
        let gone: Vec<_> = node
            .arms
            .iter()
            .flat_map(|arm| self.known("MatchArm", arm))
            .collect();
        if !gone.is_empty() {
            let range = self.text.range(node);
            self.text
                .around(range, opening(gone.into_iter()), "/*]*/".to_owned());
        }
        visit::visit_expr_match(self, node);
    }

    fn visit_arm(&mut self, node: &'ast Arm) {
        let gone = self.at("MatchArm", node);
        let there: String = gone.iter().fold(String::new(), |mut there, mutant| {
            let number = mutant.number;
            let _ = write!(there, "/*[{number}*/!{ON}({number})/*]*/ && ");
            there
        });
        match &node.guard {
            Some((_, guard)) => self.guard(guard, there),
            None if gone.is_empty() => {}
            None => {
                let end = self.text.range(&node.pat).end;
                let guard = there.trim_end_matches(" && ");
                self.text.begin(end, format!(" if {guard}"));
            }
        }
        visit::visit_arm(self, node);
    }

    fn visit_expr_struct(&mut self, node: &'ast ExprStruct) {
        for field in &node.fields {
            let Some(rest) = &node.rest else { break };
            let (of, name) = (self.text.of(&node.path), self.text.of(&field.member));
            let base = self.text.of(rest);
            let mut others = Vec::new();
            for mutant in self.at("StructField", field) {
                // What a call makes has no known type by itself; a place would be moved as a whole.
                let other = match &**rest {
                    Expr::Call(_) | Expr::MethodCall(_) => {
                        format!("{{ let rest: {of} = {base}; rest.{name} }}")
                    }
                    _ => format!("({base}).{name}"),
                };
                others.push((mutant.number, other));
            }
            let range = self.text.range(&field.expr);
            if field.colon_token.is_none() && !others.is_empty() {
                self.text.begin(range.start, format!("{name}: "));
            }
            self.choose(range, &others);
        }
        visit::visit_expr_struct(self, node);
    }
}

impl Places<'_> {
    fn guard(&mut self, guard: &Expr, mut before: String) {
        let mut after = String::new();
        let chain =
            matches!(guard, Expr::Let(_)) || matches!(guard, Expr::Binary(node) if binds(node));
        let mutants = if chain {
            Vec::new()
        } else {
            self.at("MatchArmGuard", guard)
        };
        if !mutants.is_empty() {
            before += &opening(mutants.iter().map(|mutant| mutant.number));
        }
        for mutant in &mutants {
            let (number, value) = (mutant.number, &mutant.replacement);
            let _ = write!(
                before,
                "(if {ON}({number}) {{ /*<{number}*/{value}/*>*/ }} else {{ "
            );
            after += " })";
        }
        if !mutants.is_empty() {
            after += "/*]*/";
        } else if !before.is_empty() && !chain {
            before += "(";
            after += ")";
        }
        if !before.is_empty() {
            let range = self.text.range(guard);
            self.text.around(range, before, after);
        }
    }
}

fn key(genre: &'static str, node: &impl Spanned) -> (&'static str, usize, usize) {
    let start = node.span().start();
    (genre, start.line, start.column + 1)
}

fn opening(numbers: impl Iterator<Item = u32>) -> String {
    let numbers: Vec<_> = numbers.map(|number| number.to_string()).collect();
    format!("/*[{}*/", numbers.join(","))
}

/// Whether `let` is one of the conditions.
fn binds(chain: &ExprBinary) -> bool {
    matches!(chain.op, BinOp::And(_))
        && [&chain.left, &chain.right]
            .iter()
            .any(|side| match &***side {
                Expr::Let(_) => true,
                Expr::Binary(inner) => binds(inner),
                _ => false,
            })
}

#[cfg(test)]
mod tests;
