//! Finds the syntax node of each mutant and writes the switch there.

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

/// Path of the function that returns whether a mutant is on.
const ON: &str = "::model::switch::on";

/// Rewritten source, and the mutants that are not in it: those that cannot compile, and those without a known node.
pub struct Rewrite {
    pub rewritten: String,
    pub unviable: BTreeSet<u32>,
    pub apart: BTreeSet<u32>,
}

pub fn rewrite(source: &str, mutants: &[Mutant]) -> Result<Rewrite> {
    let mut by_place = BTreeMap::<_, Vec<&Mutant>>::new();
    for mutant in mutants {
        let start = &mutant.span.start;
        let place = (mutant.genre.as_str(), start.line, start.column);
        by_place.entry(place).or_default().push(mutant);
    }
    let mut rewriter = Rewriter {
        text: Text::new(source),
        by_place,
        unviable: BTreeSet::new(),
    };
    rewriter.visit_file(&syn::parse_file(source)?);
    let unmatched = rewriter.by_place.into_values().flatten();
    Ok(Rewrite {
        rewritten: rewriter.text.finish(),
        unviable: rewriter.unviable,
        apart: unmatched.map(|mutant| mutant.number).collect(),
    })
}

struct Rewriter<'a> {
    text: Text<'a>,
    by_place: BTreeMap<(&'a str, usize, usize), Vec<&'a Mutant>>,
    unviable: BTreeSet<u32>,
}

impl<'a> Rewriter<'a> {
    /// Takes the mutants of a genre whose span begins at the node.
    fn take(&mut self, genre: &'static str, node: &impl Spanned) -> Vec<&'a Mutant> {
        self.by_place.remove(&key(genre, node)).unwrap_or_default()
    }

    fn numbers(&self, genre: &'static str, node: &impl Spanned) -> Vec<u32> {
        let found = self.by_place.get(&key(genre, node));
        found
            .into_iter()
            .flatten()
            .map(|mutant| mutant.number)
            .collect()
    }

    /// Replaces an expression by a switch between it and its mutants.
    fn insert_switch(&mut self, range: Range<usize>, others: &[(u32, String)]) {
        let mut before = format!("{}(", opening(others.iter().map(|(number, _)| *number)));
        for (number, other) in others {
            let _ = write!(
                before,
                "if {ON}({number}) {{ /*<{number}*/{other}/*>*/ }} else "
            );
        }
        if !others.is_empty() {
            self.text.wrap(range, before + "{ ", " })/*]*/".to_owned());
        }
    }

    fn function(&mut self, signature: &Signature, block: &Block) {
        let start = block.brace_token.span.open();
        let Some(first) = block.stmts.first() else {
            return;
        };
        let mutants = self.take("FnValue", first);
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
        // The values of an opaque return type must have one type, so both branches are boxed.
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
                .wrap(opened..closed, before, "}) }; one/*]*/".to_owned());
        } else {
            choice(&mut before, &|value| format!("return {value};"));
            self.text.insert_before(opened, before + "{}/*]*/");
        }
    }

    /// Mutates the operators of a chain without parentheses. Another operator may have another precedence, so each
    /// mutant rewrites the whole chain.
    fn operators(&mut self, whole: &ExprBinary) {
        let range = self.text.range(whole);
        let mut others = Vec::new();
        self.other_operators(whole, &range, &mut others);
        self.insert_switch(range, &others);
    }

    fn other_operators(
        &mut self,
        node: &ExprBinary,
        whole: &Range<usize>,
        others: &mut Vec<(u32, String)>,
    ) {
        for mutant in self.take("BinaryOperator", &node.op) {
            let operator = self.text.range(&node.op);
            let other = self
                .text
                .replaced(whole.clone(), operator, &mutant.replacement);
            others.push((mutant.number, other));
        }
        for side in [&node.left, &node.right] {
            if let Expr::Binary(inner) = &**side {
                self.other_operators(inner, whole, others);
            }
        }
    }

    /// Visits the operands of a chain of operators.
    fn operands(&mut self, node: &ExprBinary) {
        for side in [&node.left, &node.right] {
            match &**side {
                Expr::Binary(inner) => self.operands(inner),
                other => self.visit_expr(other),
            }
        }
    }

    /// Handles a chain with `let` conditions: its operators cannot be replaced, but its members can be mutated.
    fn chain(&mut self, node: &ExprBinary) {
        let refused = self.take("BinaryOperator", &node.op);
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

impl<'ast> Visit<'ast> for Rewriter<'_> {
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
        let others = self.take("UnaryOperator", &node.op);
        let operand = self.text.of(&node.expr);
        let others: Vec<_> = others
            .iter()
            .map(|mutant| (mutant.number, operand.to_owned()))
            .collect();
        let range = self.text.range(node);
        self.insert_switch(range, &others);
        visit::visit_expr_unary(self, node);
    }

    /// Marks a match with removable arms as a switch, because the compiler reports a missing case for the whole match.
    fn visit_expr_match(&mut self, node: &'ast ExprMatch) {
        let removable: Vec<_> = node
            .arms
            .iter()
            .flat_map(|arm| self.numbers("MatchArm", arm))
            .collect();
        if !removable.is_empty() {
            let range = self.text.range(node);
            self.text
                .wrap(range, opening(removable.into_iter()), "/*]*/".to_owned());
        }
        visit::visit_expr_match(self, node);
    }

    fn visit_arm(&mut self, node: &'ast Arm) {
        let removable = self.take("MatchArm", node);
        let switch: String = removable.iter().fold(String::new(), |mut switch, mutant| {
            let number = mutant.number;
            let _ = write!(switch, "/*[{number}*/!{ON}({number})/*]*/ && ");
            switch
        });
        match &node.guard {
            Some((_, guard)) => self.guard(guard, switch),
            None if removable.is_empty() => {}
            None => {
                let end = self.text.range(&node.pat).end;
                let guard = switch.trim_end_matches(" && ");
                self.text.insert_before(end, format!(" if {guard}"));
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
            for mutant in self.take("StructField", field) {
                // The type of a call's result must be annotated; a place expression is not bound, because that would
                // move it as a whole.
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
                self.text.insert_before(range.start, format!("{name}: "));
            }
            self.insert_switch(range, &others);
        }
        visit::visit_expr_struct(self, node);
    }
}

impl Rewriter<'_> {
    fn guard(&mut self, guard: &Expr, mut before: String) {
        let mut after = String::new();
        let chain =
            matches!(guard, Expr::Let(_)) || matches!(guard, Expr::Binary(node) if binds(node));
        let mutants = if chain {
            Vec::new()
        } else {
            self.take("MatchArmGuard", guard)
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
            self.text.wrap(range, before, after);
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

/// Returns whether one of the conditions is a `let`.
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
